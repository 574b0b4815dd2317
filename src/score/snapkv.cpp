// snapkv.cpp - the attention of the last queries, pooled so that neighbours survive together. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[g,j] = pool( mean over the window of A[g,·,j] ); then the group. The window's own columns (the newest entries) are cut
// off before the pooling and protected; they keep their unpooled mean, which refiners use.
// Paper:   SnapKV: LLM Knows What You are Looking for Before Generation.
// Differs: max pooling 7 by default (the first release: pool=avg5); an average divides by the entries under the kernel
//          (pool_edges=zero: by the kernel); one plan per KV head, where public code repeats the cache to all query heads.
#include "score/attention_scorer.h"
#include "score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {kWindowOption, pool_option("max7"), kGroupOption, kPoolEdgesOption};

class SnapKV final : public AttentionScorer {
public:
    explicit SnapKV(const Options & options) : AttentionScorer(parse_group(options)), pool_(options) {}

    EvidenceNeeds needs() const override { return {.window = pool_.window(), .window_mean = true}; }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("snapkv", "window_mean", evidence.window_mean, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        pool_.apply(evidence.window_mean.row(head), out);
    }

private:
    WindowPool pool_;
};

}  // namespace

ScorerInfo snapkv_scorer() {
    return {"snapkv", "attention of the last queries, pooled", "SnapKV: LLM Knows What You are Looking for Before Generation",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<SnapKV>(options); }};
}

}  // namespace pith
