// head.cpp - lanes get entries by how much their heads serve retrieval, measured beforehand. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// weight = s·(B/β)·L·K + B - B/β, with s the lane's importance, Σ s = 1 over all lanes: a part B/β of every lane's even share
// goes into one pool, which the importances divide.
// REQUIRES: head importances (pith calibrate heads).
// Paper:   Not All Heads Matter: A Head-Level KV Cache Compression Method with Integrated Retrieval and Reasoning (HeadKV).
// Differs: per KV head, by the mean over its query heads; B is net of protected entries; exact in sum, lanes of full length
//          pass on what they cannot hold.
#include "policy/allocate/allocator.h"
#include "policy/allocate/lane_importance.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    real_option("beta", "1.005", 1, 1e6, "1/beta of the budget goes by importance, the rest evenly"),
    kImportanceOption,
};

class Head final : public Allocator {
public:
    explicit Head(const Options & options) : beta_(options.real("beta")), kind_(parse_importance(options)) {}

    bool wants_importance() const override { return true; }

    void expect(const NetBudget & budget, std::span<double> weights) const override {
        const std::vector<double> importance = lane_importance(budget, kind_);
        const double mean = budget.mean();
        for (size_t lane = 0; lane < weights.size(); ++lane) {
            weights[lane] = importance[lane] * (mean / beta_) * budget.shape.n_lanes() + (mean - mean / beta_);
        }
    }
    Status weigh(const LayerView & /*layer*/, const NetBudget & /*budget*/, AllocatorState * /*state*/,
                 std::span<double> /*weights*/) const override {
        return {};  // as expected: the heads were measured beforehand
    }

private:
    double beta_;
    ImportanceKind kind_;
};

}  // namespace

AllocatorInfo head_allocator() {
    return {"head",
            "heads get entries by their measured importance (needs pith calibrate heads)",
            "s·(B/β)·L·K + B − B/β, s the lane's importance, Σ s = 1",
            "Not All Heads Matter: A Head-Level KV Cache Compression Method with Integrated Retrieval and Reasoning",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Allocator> { return std::make_shared<Head>(options); }};
}

}  // namespace pith
