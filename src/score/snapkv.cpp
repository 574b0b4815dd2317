// snapkv.cpp - the attention of the last queries, pooled so that neighbours survive together. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[g,j] = pool( mean over the window of A[g,·,j] ); then the group. The window's own columns (the newest entries) are cut
// off before the pooling and protected; they keep their unpooled mean, which refiners use.
// Paper:   SnapKV: LLM Knows What You are Looking for Before Generation.
// Differs: max pooling 7 by default (the first release: pool=avg5); an average divides by the entries under the kernel
//          (pool_edges=zero: by the kernel); one plan per KV head, where public code repeats the cache to all query heads.
#include <algorithm>

#include "score/attention_scorer.h"
#include "score/pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("window", "32", 1, 65536, "last queries observed; as many of the newest entries are protected"),
    word_option("pool", "max7", "max7|avg5|avg7|none", "pooling along the lane"),
    kGroupOption,
    word_option("pool_edges", "count", "count|zero", "averages divide by the entries under the kernel, or by its size"),
};

class SnapKV final : public AttentionScorer {
public:
    explicit SnapKV(const Options & options)
        : AttentionScorer(parse_group(options)),
          window_(static_cast<int>(options.integer("window"))),
          max_(options.is("pool", "max7")),
          kernel_(options.is("pool", "none")   ? 1
                  : options.is("pool", "avg5") ? 5
                                               : 7),
          edges_(options.is("pool_edges", "zero") ? PoolEdges::kZero : PoolEdges::kCount) {}

    EvidenceNeeds needs() const override { return {.window = window_, .window_mean = true}; }
    int n_recent(int64_t /*budget*/) const override { return window_; }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("snapkv", "window_mean", evidence.window_mean, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto row = evidence.window_mean.row(head);
        const size_t n_window = std::min(row.size(), static_cast<size_t>(window_));
        const size_t n_past = row.size() - n_window;
        if (max_) {
            pool_max(row.first(n_past), kernel_, out.first(n_past));
        } else {
            pool_avg(row.first(n_past), kernel_, edges_, out.first(n_past));
        }
        std::copy(row.end() - static_cast<std::ptrdiff_t>(n_window), row.end(),
                  out.end() - static_cast<std::ptrdiff_t>(n_window));
    }

private:
    int window_;
    bool max_;
    int kernel_;  // 1: none
    PoolEdges edges_;
};

}  // namespace

ScorerInfo snapkv_scorer() {
    return {"snapkv", "attention of the last queries, pooled", "SnapKV: LLM Knows What You are Looking for Before Generation",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<SnapKV>(options); }};
}

}  // namespace pith
