// attnvar.cpp - attention of the last queries and how much it varies: an entry whose attention shifts is worth keeping.
// Stage: score.   Pure C++: no ggml, no I/O.
//
// score[g,j] = pool( mean_W + γ·Var_W of A[g,·,j] ); then the group. Var is unbiased (n - 1; 0 for a single query), taken from
// the sums as (Σ A² - n·mean²)/(n - 1) and clamped at 0, where rounding would make it negative. The window's own entries are
// cut off before the pooling, protected, and keep their unpooled value.
// Paper:   CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences (its eviction indicator).
// Differs: an average divides by the entries under the kernel (pool_edges=zero: by the kernel); one plan per KV head.
#include <algorithm>

#include "policy/score/attention_scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kWindowOption,       real_option("gamma", "200", 0, 1e6, "weight of the variance beside the mean"),
    pool_option("avg5"), kGroupOption,
    kPoolOverOption,     kPoolEdgesOption,
};

class AttnVar final : public AttentionScorer {
public:
    explicit AttnVar(const Options & options)
        : AttentionScorer(parse_group(options)), pool_(options), gamma_(options.real("gamma")) {}

    EvidenceNeeds needs() const override { return {.window = pool_.window(), .window_mean = true, .window_head_sq = true}; }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        PITH_RETURN_IF_ERROR(require_rows("attnvar", "window_mean", evidence.window_mean, evidence, true));
        return require_rows("attnvar", "window_head_sq", evidence.window_head_sq, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto means = evidence.window_mean.row(head);
        const auto squares = evidence.window_head_sq.row(head);
        const double n = evidence.n_window;
        std::vector<float> indicator(means.size());
        for (size_t j = 0; j < indicator.size(); ++j) {
            const double mean = means[j];
            const double variance = n > 1 ? std::max(0.0, (squares[j] - n * mean * mean) / (n - 1)) : 0.0;
            indicator[j] = static_cast<float>(mean + gamma_ * variance);
        }
        pool_.apply(evidence, head / evidence.n_group, indicator, out);
    }

private:
    WindowPool pool_;
    double gamma_;
};

}  // namespace

ScorerInfo attnvar_scorer() {
    return {"attnvar",
            "attention of the last queries, and its variance",
            "pool(mean_W A + γ·Var_W A)",
            "CAKE: Cascading and Adaptive KV Cache Eviction with Layer Preferences",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<AttnVar>(options); }};
}

}  // namespace pith
