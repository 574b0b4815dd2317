// topk.cpp - protected entries, then the highest scores. Stage: select.
// Pure C++: no ggml, no I/O.
// Cost: O(entries), no allocation per entry.
#include <vector>

#include "select/selector.h"
#include "select/top.h"

namespace pith {
namespace {

class TopK final : public Selector {
public:
    bool compares_scores() const override { return false; }  // only orders them

    Status select(const LayerView & layer, std::span<const int> shares, LayerChoice & choice) const override {
        choice = {};
        TopSelector top;
        std::vector<int32_t> keep;
        std::vector<float> priority;
        for (int h = 0; h < layer.n_lanes(); ++h) {
            const auto scores = layer.scores.row(h);
            keep.clear();
            top.with_protected(scores, layer.protected_ranges.row(h), shares[static_cast<size_t>(h)], keep);
            priority.clear();
            for (const int32_t j : keep) priority.push_back(scores[static_cast<size_t>(j)]);
            choice.keep.push_row(keep);
            choice.priority.push_row(priority);
        }
        return {};
    }
};

}  // namespace

SelectorInfo topk_selector() {
    return {"topk", "the highest scores; of equals the newer", "", {}, [](const Options &) -> std::shared_ptr<const Selector> {
                return std::make_shared<TopK>();
            }};
}

}  // namespace pith
