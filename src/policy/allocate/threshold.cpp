// threshold.cpp - as many entries stay as are looked up: what scores less than tau goes, and the budget is a ceiling. Stage:
// allocate.
// Pure C++: no ggml, no I/O.
//
// weight of a lane = how many candidates of tau or more it holds among the model's best T; the selector `topk` then keeps these
// very entries. The sum of the weights is what is kept, so a text in which little is looked up keeps little. Ties as in
// model_top.h. Layer by layer this ends, entry for entry, where all layers at once end.
// Scores must mean the same in every text and at every time (Scorer::is_absolute()): then an entry that has stayed once stays
// until the budget wants its place, however often the policy is asked.
// Cost:    as global:normalise=off.
// Paper:   KVzap: Fast, Adaptive, and Faithful KV Cache Pruning.   Differs: tau is a share of attention, not its logarithm; the
//          newest entries are the scorer's `recent`; the budget bounds what is kept.
#include <algorithm>

#include "policy/allocate/allocator.h"
#include "policy/allocate/model_top.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("tau", "0.01", 0, 1, "entries that score less go, whatever the budget"),
};

class Threshold final : public Allocator {
public:
    explicit Threshold(const Options & options) : tau_(static_cast<float>(options.real("tau"))) {}

    std::unique_ptr<AllocatorState> begin() const override { return std::make_unique<ModelTop>(); }

    bool compares_scores() const override { return true; }
    bool ranks_across_layers() const override { return true; }
    bool keeps_less() const override { return true; }

    void expect(const NetBudget & /*budget*/, std::span<double> weights) const override { std::ranges::fill(weights, 0.0); }

    Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                 std::span<double> weights) const override {
        static_cast<ModelTop &>(*state).add(
            layer, budget, [](float score) { return score; }, weights, tau_);
        return {};
    }

private:
    float tau_;
};

}  // namespace

AllocatorInfo threshold_allocator() {
    return {"threshold",
            "as many entries as score tau or more; the budget is a ceiling",
            "how many candidates of tau or more it holds among the model's best; their sum is what is kept, T at most",
            "KVzap: Fast, Adaptive, and Faithful KV Cache Pruning",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Threshold>(options); }};
}

}  // namespace pith
