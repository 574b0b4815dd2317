// ada.cpp - lanes of a layer get entries as they hold the layer's best scores. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// Per layer, c_h = how many of the layer's top-(K·B) scores lane h holds (K·B rounded down; candidates only).
//   floor=mix   weight = (1-α)·c_h + α·B
//   floor=hard  the ⌊α·B⌋ best of every lane count first, the rest of the K·B goes to the layer's best others: weight = the
//   count
// Ties: the newer entry, then the lower head.
// Cost:    O(entries of the layer).
// Paper:   Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference.
// Differs: per KV head; B and c_h are net of protected entries; floor=hard follows public code that guarantees a share.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("alpha", "0.2", 0, 1, "the part of the budget that is spread evenly"),
    word_option("floor", "mix", "mix|hard", "hard: guarantee alpha of the mean to each head instead of mixing"),
};

class Ada final : public Allocator {
public:
    explicit Ada(const Options & options) : alpha_(options.real("alpha")), hard_(options.is("floor", "hard")) {}

    bool compares_scores() const override { return true; }
    void expect(const NetBudget & budget, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), budget.mean());
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * /*state*/,
                 std::span<double> weights) const override {
        const double mean = budget.mean();
        int64_t n_top = budget.total / budget.shape.n_layers;  // ⌊K·B⌋
        Candidates candidates = gather_candidates(layer);
        std::vector<int64_t> counts(static_cast<size_t>(layer.n_lanes()), 0);
        if (hard_) {
            const auto floor = static_cast<int64_t>(alpha_ * mean + 1e-9);  // 1e-9: 0.29 · 100 is 29
            for (int h = 0; h < layer.n_lanes(); ++h) {
                counts[static_cast<size_t>(h)] = std::min<int64_t>(floor, candidates.scores.length(h));
            }
            candidates = rest_of(candidates, counts);
            n_top -= std::accumulate(counts.begin(), counts.end(), int64_t{0});
        }
        const std::vector<int64_t> top_counts = count_top(candidates, n_top);
        for (int h = 0; h < layer.n_lanes(); ++h) {
            const auto count = static_cast<double>(counts[static_cast<size_t>(h)] + top_counts[static_cast<size_t>(h)]);
            weights[static_cast<size_t>(budget.shape.lane(layer.layer, h))] =
                hard_ ? count : (1 - alpha_) * count + alpha_ * mean;
        }
        return {};
    }

private:
    double alpha_;
    bool hard_;
};

}  // namespace

AllocatorInfo ada_allocator() {
    return {"ada",
            "heads of a layer get entries as they hold its best scores",
            "(1−α)·c + α·B, c = how many of the layer's ⌊K·B⌋ highest scores the lane holds",
            "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Ada>(options); }};
}

}  // namespace pith
