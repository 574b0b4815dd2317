// reference.cpp - the whole eviction once more, slow and obvious: what is protected, and from weights to whole shares.
#include "policy/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "policy/formulas.h"

namespace pith::test {
namespace {

int n_recent_of(const PartVariant & scorer, int64_t budget) {
    if (scorer.options.contains("window")) return static_cast<int>(scorer.number("window"));
    const auto recent = scorer.options.find("recent");
    if (recent == scorer.options.end()) return 0;
    return recent->second == "half" ? static_cast<int>(budget / 2) : std::stoi(recent->second);
}

}  // namespace

// clamp(λ·weight, 0, length) that sums to the total: λ by bisection; lanes of weight 0 take what the others leave, evenly.
std::vector<long double> real_shares(const std::vector<double> & weights, const std::vector<int> & lengths, int64_t total) {
    std::vector<long double> shares(weights.size(), 0.0L);
    int64_t room = 0;
    for (size_t i = 0; i < weights.size(); ++i) room += weights[i] > 0 ? lengths[i] : 0;
    if (room <= total) {
        std::vector<double> rest(weights.size(), 0.0);
        bool any = false;
        for (size_t i = 0; i < weights.size(); ++i) {
            if (weights[i] > 0) shares[i] = lengths[i];
            if (weights[i] == 0 && lengths[i] > 0) rest[i] = 1, any = true;
        }
        if (any && room < total) {
            const auto others = real_shares(rest, lengths, total - room);
            for (size_t i = 0; i < weights.size(); ++i) shares[i] += rest[i] > 0 ? others[i] : 0;
        }
        return shares;
    }
    long double low = 0;
    long double high = 0;  // where every lane is full
    for (size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] > 0) high = std::max(high, lengths[i] / static_cast<long double>(weights[i]));
    }
    for (int step = 0; step < 300; ++step) {
        const long double lambda = (low + high) / 2;
        long double sum = 0;
        for (size_t i = 0; i < weights.size(); ++i) sum += std::min<long double>(lambda * weights[i], lengths[i]);
        (sum < total ? low : high) = lambda;
    }
    for (size_t i = 0; i < weights.size(); ++i) shares[i] = std::min<long double>(high * weights[i], lengths[i]);
    return shares;
}

std::vector<int> whole_shares(const std::vector<long double> & shares, const std::vector<int> & lengths, int64_t total) {
    std::vector<int> whole;
    std::vector<std::pair<int64_t, size_t>> remainders;  // (-remainder, lane)
    for (size_t i = 0; i < shares.size(); ++i) {
        const int64_t fine = std::llround(shares[i] * (1 << 20));  // what is nearer than a millionth is a tie
        whole.push_back(static_cast<int>(fine >> 20));
        total -= whole.back();
        remainders.emplace_back(-(fine & ((1 << 20) - 1)), i);
    }
    std::sort(remainders.begin(), remainders.end());
    for (int round = 0; total > 0 && round < 3; ++round) {
        for (const auto & [remainder, i] : remainders) {
            if (total > 0 && whole[i] < lengths[i]) ++whole[i], --total;
        }
    }
    return whole;
}

int ceil_of(long double share) {
    return static_cast<int>((std::llround(share * (1 << 20)) + (1 << 20) - 1) >> 20);
}

void missing(std::string_view part) {
    throw std::runtime_error("'" + std::string(part) +
                             "' has no formula: write one in its test (tests/policy/formulas.h, CONTRIBUTING.md)");
}

void no_values(size_t kv_head) {
    throw std::runtime_error("the evidence has no values of lane " + std::to_string(kv_head));
}

bool is_allowed(std::string_view scorer, std::string_view refiner, std::string_view allocator, std::string_view selector) {
    if (scorer == "full") { return refiner.empty() && allocator == "uniform" && selector == "topk"; }
    const ScorerFormula * scores = Known<ScorerFormula>::find(scorer);
    const AllocatorFormula * weighs = Known<AllocatorFormula>::find(allocator);
    if (weighs != nullptr && weighs->keeps_less && scores != nullptr && (!scores->is_absolute || !refiner.empty())) {
        return false;
    }
    if (scores == nullptr || !scores->by_position) { return true; }
    const SelectorFormula * keeps = Known<SelectorFormula>::find(selector);
    return refiner.empty() && (weighs == nullptr || !weighs->compares_scores) && (keeps == nullptr || !keeps->compares_scores);
}

std::string PolicyVariant::text() const {
    std::string text = scorer.text();
    if (scorer.name == "full") return text;  // with the default parts, which may not be spelt
    for (const PartVariant * part : {&refiner, &allocator, &selector}) {
        if (!part->name.empty()) text.append("+").append(part->text());
    }
    return text;
}

Protected reference_protection(const PartVariant & scorer, const EvictionTarget & target,
                               const std::vector<LayerEvidence> & layers) {
    const int n_recent = n_recent_of(scorer, target.budget);
    const int n_sinks = scorer.options.contains("sinks") ? static_cast<int>(scorer.number("sinks")) : 0;
    Protected result;
    int64_t n_entries = 0;
    int64_t n_protected = 0;
    for (const LayerEvidence & layer : layers) {
        for (int h = 0; h < layer.n_kv_heads; ++h) {
            const auto positions = layer.positions.row(h);
            const auto n = static_cast<int>(positions.size());
            std::vector<bool> is_protected;
            for (int j = 0; j < n; ++j) {
                const int32_t position = positions[static_cast<size_t>(j)];
                bool keep = position < n_sinks || j >= n - n_recent;
                for (const PositionSpan & span : target.pinned) keep = keep || (span.begin <= position && position < span.end);
                is_protected.push_back(keep);
                n_protected += keep ? 1 : 0;
            }
            n_entries += n;
            result.is_protected.push_back(is_protected);
        }
    }
    result.total = scorer.name == "full" ? n_entries : std::min(target.budget * target.shape.n_lanes(), n_entries);
    result.too_small = result.total < n_protected;
    return result;
}

ReferenceCase reference_case(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers, const std::vector<LayerScores> & scores) {
    const Protected what = reference_protection(policy.scorer, target, layers);
    ReferenceCase c{.shape = target.shape, .target = target, .layers = layers, .layer_scores = scores};
    c.n_recent = n_recent_of(policy.scorer, target.budget);
    c.is_protected = what.is_protected;
    c.net_total = what.total;
    for (size_t l = 0; l < layers.size(); ++l) {
        for (int h = 0; h < target.shape.n_kv_heads; ++h) {
            const auto positions = layers[l].positions.row(h);
            const std::vector<float> & row = scores[l].refined[static_cast<size_t>(h)];
            const std::vector<bool> & is_protected = what.is_protected[c.scores.size()];
            std::vector<Candidate> lane;
            for (size_t j = 0; j < row.size(); ++j) {
                if (is_protected[j]) {
                    --c.net_total;
                } else {
                    lane.push_back({row[j], positions[j], h});
                }
            }
            c.net_lengths.push_back(static_cast<int>(lane.size()));
            c.lanes.push_back(lane);
            c.scores.push_back(row);
        }
    }
    c.profiles = reference_profiles(policy, layers);
    return c;
}

KeptLanes reference_eviction(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers, const std::vector<LayerScores> & scores) {
    const ReferenceCase c = reference_case(policy, target, layers, scores);
    const auto weights = reference_weights(policy.allocator, c);
    const int64_t total = reference_keeps_less(policy.allocator)
                              ? std::llround(std::accumulate(weights.begin(), weights.end(), 0.0))
                              : c.net_total;
    const auto shares = whole_shares(real_shares(weights, c.net_lengths, total), c.net_lengths, total);
    return reference_select(policy.selector, c, shares);
}

}  // namespace pith::test
