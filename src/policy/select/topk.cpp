// topk.cpp - protected entries, then the highest scores. Stage: select.
// Pure C++: no ggml, no I/O.
// Cost: O(entries), no allocation per entry.
#include "policy/lane/top.h"
#include "policy/select/selector.h"

namespace pith {
namespace {

class TopK final : public Selector {
public:
    bool compares_scores() const override { return false; }  // only orders them

    Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & run,
                  LayerChoice & choice) const override {
        return choose_top(layer, shares, run, choice);
    }
};

}  // namespace

SelectorInfo topk_selector() {
    return {
        "topk",
        "the highest scores; of equals the newer",
        "the highest scores of each lane",
        "",
        {},
        [](const Options &) -> std::shared_ptr<const Selector> { return std::make_shared<TopK>(); },
    };
}

}  // namespace pith
