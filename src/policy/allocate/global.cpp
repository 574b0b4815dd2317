// global.cpp - the best entries of the whole model stay, whatever their layer and head. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// s = score / Σ of the scores of all entries of the layer outside the recent window and before all queries observed (pinned
// ones and sinks count in the sum, not in the ranking). weight of a lane = how many of the model's best candidates it holds;
// the selector `topk` then keeps these very entries. Ties: the newer entry, then the lower layer, then the lower head.
//   flatten=both   one ranking over all layers and heads
//   flatten=head   one ranking per layer; every layer gets the same (this is ada:alpha=0)
//   flatten=none   every lane gets the same (this is uniform)
//   normalise=off  raw scores in place of s
// Layer by layer the best of the layers so far are kept: an entry outside them is outside the final best, since the threshold
// can only rise. So the cascade ends, entry for entry, where all layers at once end, and never holds more than the budget and
// one full layer. s is a double, so that scores that differ stay different.
// Scores that can be negative are first lowered by the layer's minimum; a layer whose scores add up to 0 ranks as 0.
// Cost:    O(budget + the layer's entries) per layer (partial selection); 16 bytes per candidate kept (of all
//          layers, where they come at once).
// Paper:   Reformulating KV Cache Eviction Problem for Long-Context LLM Inference (LaProx), equation (12) and Algorithm 2; its
//          Table 5 for flatten and normalise.
#include <algorithm>

#include "policy/allocate/allocator.h"
#include "policy/allocate/layer_top.h"
#include "policy/allocate/model_top.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    word_option("flatten", "both", "both|head|none",
                "rank across layers and heads, across the heads of a layer, or not at all"),
    word_option("normalise", "on", "on|off", "on: divide scores by the sum of their layer, so that layers compare"),
};

// s = (score - shift) / sum
struct Scale {
    double shift = 0;
    double sum = 1;

    double operator()(float score) const { return sum > 0 ? (score - shift) / sum : 0; }
};

Scale layer_scale(const LayerView & layer) {
    Scale scale{0, 0};
    const auto outside_window = [&](int h) {
        const auto row = layer.scores.row(h);
        const auto positions = layer.positions.row(h);
        const auto n_before = static_cast<size_t>(std::ranges::lower_bound(positions, layer.window_begin) - positions.begin());
        return row.first(std::min(n_before, row.size() - std::min(row.size(), static_cast<size_t>(layer.n_recent))));
    };
    for (int h = 0; h < layer.n_lanes(); ++h) {
        for (const float score : outside_window(h)) { scale.shift = std::min(scale.shift, static_cast<double>(score)); }
    }
    for (int h = 0; h < layer.n_lanes(); ++h) {
        for (const float score : outside_window(h)) { scale.sum += score - scale.shift; }
    }
    return scale;
}

class Global final : public Allocator {
public:
    explicit Global(const Options & options)
        : across_layers_(options.is("flatten", "both")),
          across_heads_(!options.is("flatten", "none")),
          normalise_(options.is("normalise", "on")) {}

    std::unique_ptr<AllocatorState> begin() const override { return std::make_unique<ModelTop>(); }

    bool compares_scores() const override { return true; }
    bool ranks_across_layers() const override { return true; }

    void expect(const NetBudget & budget, std::span<double> weights) const override {
        std::fill(weights.begin(), weights.end(), across_layers_ ? 0.0 : budget.mean());
    }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                 std::span<double> weights) const override {
        if (across_layers_) {
            static_cast<ModelTop &>(*state).add(layer, budget, normalise_ ? layer_scale(layer) : Scale{}, weights);
        } else if (across_heads_) {
            const auto counts = count_top(gather_candidates(layer), budget.total / budget.shape.n_layers);
            for (int h = 0; h < layer.n_lanes(); ++h) {
                weights[static_cast<size_t>(budget.shape.lane(layer.layer, h))] =
                    static_cast<double>(counts[static_cast<size_t>(h)]);
            }
        }
        return {};
    }

private:
    bool across_layers_;
    bool across_heads_;
    bool normalise_;
};

}  // namespace

AllocatorInfo global_allocator() {
    return {"global",
            "the best entries of the whole model stay, whatever their layer and head",
            "how many of the model's best candidates it holds, scores divided by their layer's sum",
            "Reformulating KV Cache Eviction Problem for Long-Context LLM Inference (LaProx)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Global>(options); }};
}

}  // namespace pith
