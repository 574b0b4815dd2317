// ada.cpp - lanes of a layer get entries as they hold the layer's best scores. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// Per layer, c_h = how many of the layer's top-(K·B) scores lane h holds (K·B rounded down; candidates only).
//   floor=mix   weight = (1-α)·c_h + α·B
//   floor=hard  the ⌊α·B⌋ best of every lane count first, the rest of the K·B goes to the layer's best others: weight = the
//   count
// Ties: the newer entry, then the lower head.
// Cost:    O(entries of the layer), three scratch arrays.
// Paper:   Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference.
// Differs: per KV head; B and c_h are net of protected entries; floor=hard follows public code that guarantees a share.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "allocate/allocator.h"
#include "select/top.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("alpha", "0.2", 0, 1, "the part of the budget that is spread evenly"),
    word_option("floor", "mix", "mix|hard", "hard: guarantee alpha of the mean to each lane instead of mixing"),
};

// taken: 1 for entries that are out of the count. Adds to counts[h] lane h's entries among the layer's n_top best others.
void count_layer_top(const LayerView & layer, const std::vector<uint8_t> & taken, int64_t n_top,
                     std::vector<int64_t> & counts) {
    const auto scores = layer.scores.flat();
    std::vector<float> open;
    open.reserve(scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
        if (taken[i] == 0) open.push_back(scores[i]);
    }
    n_top = std::min<int64_t>(n_top, std::ssize(open));
    if (n_top <= 0) return;
    std::nth_element(open.begin(), open.begin() + (n_top - 1), open.end(), std::greater<>());
    const float threshold = open[static_cast<size_t>(n_top - 1)];

    std::vector<std::pair<int32_t, int>> ties;  // (-position, head): ascending order is the tie rule
    int64_t n_ties_in = n_top;
    for (int h = 0; h < layer.n_lanes(); ++h) {
        const auto row = layer.scores.row(h);
        const auto positions = layer.positions.row(h);
        const uint8_t * row_taken = taken.data() + layer.scores.offset(h);
        int64_t above = 0;
        for (size_t j = 0; j < row.size(); ++j) {
            if (row_taken[j] != 0) continue;
            if (row[j] > threshold) ++above;
            if (row[j] == threshold) ties.emplace_back(-positions[j], h);
        }
        counts[static_cast<size_t>(h)] += above;
        n_ties_in -= above;
    }
    std::nth_element(ties.begin(), ties.begin() + (n_ties_in - 1), ties.end());
    for (int64_t i = 0; i < n_ties_in; ++i) ++counts[static_cast<size_t>(ties[static_cast<size_t>(i)].second)];
}

class Ada final : public Allocator {
public:
    explicit Ada(const Options & options) : alpha_(options.real("alpha")), hard_(options.is("floor", "hard")) {}

    void expect(const NetBudget & budget, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), budget.mean());
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * /*state*/,
                 std::span<double> weights) const override {
        const int n_lanes = layer.n_lanes();
        const double mean = budget.mean();
        int64_t n_top = budget.total / budget.shape.n_layers;  // ⌊K·B⌋
        std::vector<int64_t> counts(static_cast<size_t>(n_lanes), 0);
        std::vector<uint8_t> taken(layer.scores.size(), 0);
        for (int h = 0; h < n_lanes; ++h) {
            for (const IndexRange & range : layer.protected_ranges.row(h)) {
                uint8_t * row = taken.data() + layer.scores.offset(h);
                std::fill(row + range.begin, row + range.end, uint8_t{1});
            }
        }
        if (hard_) {
            const auto n_floor = static_cast<int>(alpha_ * mean + 1e-9);  // 1e-9: 0.29 · 100 is 29
            TopSelector top;
            std::vector<int32_t> best;
            for (int h = 0; h < n_lanes; ++h) {
                best.clear();
                top.candidates(layer.scores.row(h), layer.protected_ranges.row(h), n_floor, best);
                for (const int32_t j : best) taken[layer.scores.offset(h) + static_cast<size_t>(j)] = 1;
                counts[static_cast<size_t>(h)] = std::ssize(best);
                n_top -= std::ssize(best);
            }
        }
        count_layer_top(layer, taken, n_top, counts);
        for (int h = 0; h < n_lanes; ++h) {
            const auto count = static_cast<double>(counts[static_cast<size_t>(h)]);
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
    return {"ada", "lanes of a layer get entries as they hold its best scores",
            "Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference", kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Ada>(options); }};
}

}  // namespace pith
