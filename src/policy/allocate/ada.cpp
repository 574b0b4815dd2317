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
#include <utility>
#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"
#include "policy/lane/top.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("alpha", "0.2", 0, 1, "the part of the budget that is spread evenly"),
    word_option("floor", "mix", "mix|hard", "hard: guarantee alpha of the mean to each head instead of mixing"),
};

// Takes the n best of every lane out of the candidates; counts[h] = how many they were.
void take_floor(Candidates & candidates, int n, std::span<int64_t> counts) {
    Candidates others;
    TopSelector top;
    std::vector<int32_t> best;
    std::vector<float> scores;
    std::vector<int32_t> positions;
    for (int h = 0; h < candidates.scores.n_rows(); ++h) {
        best.clear();
        scores.clear();
        positions.clear();
        top.candidates(candidates.scores.row(h), {}, n, best);
        auto next = best.begin();
        for (int32_t j = 0; j < candidates.scores.length(h); ++j) {
            if (next != best.end() && *next == j) {
                ++next;
                continue;
            }
            scores.push_back(candidates.scores.row(h)[static_cast<size_t>(j)]);
            positions.push_back(candidates.positions.row(h)[static_cast<size_t>(j)]);
        }
        others.scores.push_row(scores);
        others.positions.push_row(positions);
        counts[static_cast<size_t>(h)] = std::ssize(best);
    }
    candidates = std::move(others);
}

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
            take_floor(candidates, static_cast<int>(alpha_ * mean + 1e-9), counts);  // 1e-9: 0.29 · 100 is 29
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
    return {"ada", "heads of a layer get entries as they hold its best scores",
            "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference", kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Ada>(options); }};
}

}  // namespace pith
