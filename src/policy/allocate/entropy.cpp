// entropy.cpp - layers get entries by how evenly their scores are spread, lanes as they hold the layer's best. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// e_l = -Σ p log p / log n over the layer's n candidates, p their scores divided by their sum (0 where n < 2).
// N_l = the layer's part of the budget, ∝ e_l over the layers seen so far; weight of a lane = how many of the layer's top-⌈N_l⌉
// it holds, scaled so that the lanes of the layer add up to N_l; floor=φ first gives each lane φ of N_l evenly, as the
// authors' code does with 0.2. While layers arrive N_l shrinks, and the lanes are counted
// again among the candidates still kept: those are the top-⌈N_l⌉ of the layer, so this ends where knowing all layers ends.
// Scores that can be negative are first lowered by their minimum; if all are equal to it, p is uniform.
// Cost:    O(candidates kept) per layer; holds the scores and positions of all candidates kept.
// Paper:   LAVa: Layer-wise KV Cache Eviction with Dynamic Budget Allocation.
// Differs: candidates only: protected entries do not enter the entropy, and N_l is net of them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"
#include "policy/allocate/shares.h"

namespace pith {
namespace {

// The entropy of the scores normalised to 1, over the log of their number.
double relative_entropy(std::span<const float> scores) {
    if (scores.size() < 2) { return 0; }
    const double shift = std::min(0.0, static_cast<double>(*std::min_element(scores.begin(), scores.end())));
    double sum = 0;
    for (const float score : scores) { sum += score - shift; }
    if (!(sum > 0)) { return 1; }
    double entropy = 0;
    for (const float score : scores) {
        const double p = (score - shift) / sum;
        if (p > 0) { entropy -= p * std::log(p); }
    }
    return std::max(0.0, entropy / std::log(static_cast<double>(scores.size())));
}

constexpr OptionSpec kOptions[] = {
    real_option("floor", "0", 0, 1, "the part of a layer's budget that its heads share evenly"),
};

class State final : public AllocatorState {
public:
    std::vector<double> entropies;       // of the layers seen
    std::vector<Candidates> candidates;  // that are kept
};

class Entropy final : public Allocator {
public:
    explicit Entropy(const Options & options) : floor_(options.real("floor")) {}

    bool compares_scores() const override { return true; }
    std::unique_ptr<AllocatorState> begin() const override { return std::make_unique<State>(); }

    void expect(const NetBudget & /*budget*/, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), 0.0);
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                 std::span<double> weights) const override {
        State & seen = static_cast<State &>(*state);
        seen.candidates.push_back(gather_candidates(layer));
        seen.entropies.push_back(relative_entropy(seen.candidates.back().scores.flat()));
        if (!budget.cascade && layer.layer + 1 < budget.shape.n_layers) { return {}; }

        std::vector<int> lengths;
        int64_t room = 0;
        for (const Candidates & candidates : seen.candidates) {
            lengths.push_back(static_cast<int>(candidates.scores.size()));
            room += lengths.back();
        }
        const std::vector<double> shares = divide_real(seen.entropies, lengths, std::min(budget.total, room));
        for (size_t l = 0; l < shares.size(); ++l) {
            const int64_t n_top = ceil_share(shares[l]);
            const std::vector<int64_t> counts = count_top(seen.candidates[l], n_top);
            for (int h = 0; h < layer.n_lanes(); ++h) {
                const auto count = static_cast<double>(counts[static_cast<size_t>(h)]);
                const double by_count = n_top > 0 ? count / static_cast<double>(n_top) : 0;
                weights[static_cast<size_t>(budget.shape.lane(static_cast<int>(l), h))] =
                    shares[l] * ((1 - floor_) * by_count + (n_top > 0 ? floor_ / layer.n_lanes() : 0));
            }
            if (budget.cascade && n_top < lengths[l]) { seen.candidates[l] = top_of(seen.candidates[l], counts); }
        }
        return {};
    }

private:
    double floor_;
};

}  // namespace

AllocatorInfo entropy_allocator() {
    return {"entropy",
            "layers get entries by the entropy of their scores, heads as they hold the best ones",
            "layer ∝ entropy of its scores over the log of their number; within a layer, by how many of its best scores each "
            "lane holds",
            "LAVa: Layer-wise KV Cache Eviction with Dynamic Budget Allocation",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Entropy>(options); }};
}

}  // namespace pith
