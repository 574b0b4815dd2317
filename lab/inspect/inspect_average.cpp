// inspect_average.cpp - inspections flattened to numbers, and numbers put back into the shape of an inspection. Stage: inspect.
#include "inspect/inspect_average.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pith {
namespace {

// The numbers of a case in a fixed order; f(double &) for each.
template <class F>
void visit(InspectCase & one, F f) {
    for (double & kept : one.kept_mean) { f(kept); }
    for (HeadFidelity & head : one.heads) {
        for (double * number : {&head.mass, &head.sigma, &head.perturbation, &head.relative_perturbation, &head.output_error}) {
            f(*number);
        }
    }
    for (LayerFidelity & layer : one.layers) {
        f(layer.cosine);
        f(layer.hidden_error);
    }
    f(one.logit_error);
    auto entries = static_cast<double>(one.budget_entries);
    f(entries);
    one.budget_entries = std::llround(entries);
}

// Those of the full cache.
template <class F>
void visit(Inspection & inspection, F f) {
    f(inspection.perplexity);
    for (HeadSummary & head : inspection.heads) {
        for (double * number : {&head.entropy, &head.strongest, &head.sinks, &head.recent}) { f(*number); }
    }
    for (LayerSummary & layer : inspection.layers) {
        for (double * number : {&layer.attention_mean, &layer.attention_max, &layer.output_mean, &layer.output_max,
                                &layer.attention_output_rank, &layer.within, &layer.temporal}) {
            f(*number);
        }
        for (double & distance : layer.head_distance) { f(distance); }
    }
    for (double & distance : inspection.distance) { f(distance); }
}

template <class F>
void visit(InspectPair & pair, F f) {
    for (double & number : pair.spearman) { f(number); }
    for (double & number : pair.jaccard) { f(number); }
}

template <class Part>
std::vector<double> numbers_of(Part & part) {
    std::vector<double> numbers;
    visit(part, [&numbers](double & number) { numbers.push_back(number); });
    return numbers;
}

template <class Part>
void fill(Part & part, const std::vector<double> & numbers) {
    size_t i = 0;
    visit(part, [&](double & number) { number = numbers[i++]; });
}

// Lanes by how many entries they hold: which ones is the text's own.
InspectCase without_positions(const InspectCase & one) {
    InspectCase out = one;
    out.kept_mean = kept_of_lanes(one);
    out.kept.clear();
    out.same_choice = false;
    return out;
}

Inspection of_full_cache(const Inspection & one) {
    Inspection out;
    out.shape = one.shape;
    out.layer_numbers = one.layer_numbers;
    out.n_model_layers = one.n_model_layers;
    out.type_k = one.type_k;
    out.type_v = one.type_v;
    out.distance_by = one.distance_by;
    out.perplexity = one.perplexity;
    out.heads = one.heads;
    out.layers = one.layers;
    out.distance = one.distance;
    return out;
}

}  // namespace

void InspectAverager::add(const Inspection & one) {
    Inspection full = of_full_cache(one);
    if (full_.n() == 0) {
        shape_ = full;
        cases_.resize(one.cases.size());
        for (const InspectCase & c : one.cases) {
            InspectCase nothing;
            nothing.policy = c.policy;
            nothing.budget = c.budget;
            nothing.refused = c.refused;
            case_shapes_.push_back(std::move(nothing));
        }
    }
    full_.add(numbers_of(full));
    const auto length = static_cast<double>(one.n_tokens);
    lengths_.add(std::span(&length, 1));
    for (size_t i = 0; i < one.cases.size(); ++i) {
        if (!one.cases[i].refused.empty()) { continue; }
        InspectCase held = without_positions(one.cases[i]);
        cases_[i].add(numbers_of(held));
        if (cases_[i].n() == 1) { case_shapes_[i] = std::move(held); }
    }
    for (const InspectPair & pair : one.pairs) {
        const PairKey key{pair.first, pair.second, pair.budget};
        const auto at = static_cast<size_t>(std::ranges::find(pair_keys_, key) - pair_keys_.begin());
        if (at == pair_keys_.size()) {
            pair_keys_.push_back(key);
            pairs_.emplace_back();
        }
        InspectPair copy = pair;
        pairs_[at].add(numbers_of(copy));
    }
}

InspectAverage InspectAverager::result() const {
    InspectAverage out;
    out.n_texts = full_.n();
    out.n_tokens = lengths_.mean()[0];
    out.n_tokens_deviation = lengths_.deviation()[0];
    for (const Moments & one : cases_) { out.n_of_case.push_back(one.n()); }
    for (const Moments & one : pairs_) { out.n_of_pair.push_back(one.n()); }
    const auto n_layers = static_cast<size_t>(shape_.shape.n_layers);
    const auto build = [&](const auto & pick) {
        Inspection inspection = shape_;
        inspection.n_tokens = std::llround(pick(lengths_)[0]);
        fill(inspection, pick(full_));
        inspection.cases = case_shapes_;
        for (size_t i = 0; i < cases_.size(); ++i) {
            if (cases_[i].n() > 0) { fill(inspection.cases[i], pick(cases_[i])); }
        }
        for (size_t i = 0; i < pairs_.size(); ++i) {
            const auto & [first, second, budget] = pair_keys_[i];
            InspectPair pair{first, second, budget, std::vector<double>(n_layers), std::vector<double>(n_layers)};
            fill(pair, pick(pairs_[i]));
            inspection.pairs.push_back(std::move(pair));
        }
        return inspection;
    };
    out.mean = build([](const Moments & moments) { return moments.mean(); });
    out.deviation = build([](const Moments & moments) { return moments.deviation(); });
    return out;
}

}  // namespace pith
