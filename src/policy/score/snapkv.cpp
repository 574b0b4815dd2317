// snapkv.cpp - the attention of the last queries, pooled so that neighbours survive together. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[h,j] = pool( group of the mean over the window of A[g,·,j] ): the authors' code for grouped heads (AdaKV's and
// KVCache-Factory's, too) reduces the group first. order=pool-group pools each query head before the group, as kvpress does.
// Scores per query head, which refiners read, are each pooled by itself. The window's own columns (the newest entries) are cut
// off before the pooling and protected; they keep their unpooled mean, which refiners use.
// Paper:   SnapKV: LLM Knows What You are Looking for Before Generation.
// Differs: max pooling 7 by default (the first release: pool=avg5); an average divides by the entries under the kernel
//          (pool_edges=zero: by the kernel); one plan per KV head, where public code repeats the cache to all query heads.
#include <algorithm>

#include "policy/score/attention_scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {kWindowOption,
                                   pool_option("max7"),
                                   kGroupOption,
                                   kPoolOverOption,
                                   kPoolEdgesOption,
                                   word_option("order", "group-pool", "group-pool|pool-group",
                                               "what comes first: the group's reduction, or the pooling of each query head")};

class SnapKV final : public AttentionScorer {
public:
    explicit SnapKV(const Options & options)
        : AttentionScorer(parse_group(options)), pool_(options), group_first_(options.is("order", "group-pool")) {}

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        if (!group_first_) { return AttentionScorer::score(evidence, scores); }
        PITH_RETURN_IF_ERROR(check(evidence));
        const auto mean_of = [&](int head, std::span<float> out) {
            const auto row = evidence.window_mean.row(head);
            std::copy(row.begin(), row.end(), out.begin());
        };
        Ragged<float> reduced;
        reduce_heads(evidence, mean_of, reduced);
        scores = make_lane_scores(evidence);
        for (int h = 0; h < scores.n_rows(); ++h) { pool_.apply(evidence, h, reduced.row(h), scores.row(h)); }
        return {};
    }

    EvidenceNeeds needs() const override { return {.window = pool_.window(), .window_mean = true}; }
    int n_recent(int64_t /*budget*/) const override { return pool_.window(); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("snapkv", "window_mean", evidence.window_mean, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        pool_.apply(evidence, head / evidence.n_group, evidence.window_mean.row(head), out);
    }

private:
    WindowPool pool_;
    bool group_first_;
};

}  // namespace

ScorerInfo snapkv_scorer() {
    return {"snapkv",
            "attention of the last queries, pooled",
            "pool(mean_W of A over the group)",
            "SnapKV: LLM Knows What You are Looking for Before Generation",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<SnapKV>(options); }};
}

}  // namespace pith
