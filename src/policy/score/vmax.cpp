// vmax.cpp - attention of the last queries times the largest value of the lane, so that lanes compare with each other.
// Stage: score.   Pure C++: no ggml, no I/O.
//
// score[g,j] = pool( mean over the window of A[g,·,j] ) · max over the lane outside the window of |v|₁; then the group's
// maximum. The window's own entries are cut off before the pooling and protected; they keep their unpooled mean, times the same
// factor. Paper:   LAVa: Layer-wise KV Cache Eviction with Dynamic Budget Allocation. Differs: the factor comes from the
// entries the lane holds now, not from those evicted before.
#include <algorithm>

#include "policy/score/attention_scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kWindowOption, pool_option("max7"), group_option("max"), kPoolOverOption, kPoolEdgesOption,
};

class VMax final : public AttentionScorer {
public:
    explicit VMax(const Options & options) : AttentionScorer(parse_group(options)), pool_(options) {}

    EvidenceNeeds needs() const override { return {.window = pool_.window(), .window_mean = true, .value_l1 = true}; }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        PITH_RETURN_IF_ERROR(require_rows("vmax", "window_mean", evidence.window_mean, evidence, true));
        return require_rows("vmax", "value_l1", evidence.value_l1, evidence, false);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const int kv_head = head / evidence.n_group;
        float most = 0;
        for (const float norm : evidence.value_l1.row(kv_head).first(pool_.n_past(evidence, kv_head))) {
            most = std::max(most, norm);
        }
        pool_.apply(evidence, kv_head, evidence.window_mean.row(head), out);
        for (float & score : out) { score *= most; }
    }

private:
    WindowPool pool_;
};

}  // namespace

ScorerInfo vmax_scorer() {
    return {"vmax",
            "attention of the last queries, scaled by the head's largest value",
            "pool(mean_W A) · max_i ‖v_i‖₁ of the lane outside the window",
            "LAVa: Layer-wise KV Cache Eviction with Dynamic Budget Allocation",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<VMax>(options); }};
}

}  // namespace pith
