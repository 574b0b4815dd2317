// worst.cpp - the most that any of the last queries paid: what once mattered may matter again. Stage: score.
// Pure C++: no ggml, no I/O.
//
// m[h,j] = max over g in group(h) and the window's queries i of A[g,i,·] pooled along the tokens: each query's row is averaged
// over `pool` entries before the window, zeros outside, and brought back to the sum that it had (an average and a maximum do
// not commute; max pooling does, and keeps no sum). score = max(m[h,j], mean of the lane's m before the window): what no query
// of the window looks at is not therefore worthless (floor=none: m).
// Paper:   Taming the Fragility of KV Cache Eviction in LLM Inference (DefensiveKV).
// Differs: the window's entries are those of the observed queries; on a ragged lane the mean is over the entries that it
//          holds.
#include <algorithm>
#include <numeric>

#include "policy/score/attention_scorer.h"
#include "policy/score/window_pool.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kWindowOption,
    pool_option("avg5"),
    group_option("max"),
    word_option("floor", "mean", "mean|none", "mean: no entry scores below the mean of its lane"),
};

class Worst final : public AttentionScorer {
public:
    explicit Worst(const Options & options)
        : AttentionScorer(parse_group(options)),
          window_(static_cast<int>(options.integer("window"))),
          pooling_(parse_pooling(options.word("pool"))),
          lifts_(options.is("floor", "mean")) {}

    EvidenceNeeds needs() const override {
        return {.window = window_,
                .window_max = true,
                .window_max_pool = pooling_.largest || pooling_.width <= 1 ? 0 : pooling_.width};
    }
    int n_recent(int64_t /*budget*/) const override { return window_; }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(AttentionScorer::score(evidence, scores));
        for (int h = 0; h < scores.n_rows(); ++h) { lift(n_past(evidence, h), scores.row(h)); }
        return {};
    }
    Status score_heads(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(AttentionScorer::score_heads(evidence, scores));
        for (int r = 0; r < scores.n_rows(); ++r) { lift(n_past(evidence, r / evidence.n_group), scores.row(r)); }
        return {};
    }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("worst", "window_max", evidence.window_max, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto row = evidence.window_max.row(head);
        std::ranges::copy(row, out.begin());
        if (!pooling_.largest) { return; }  // an average was taken row by row
        const size_t n = n_past(evidence, head / evidence.n_group);
        const int reach = pooling_.width / 2;
        pool_max(row.first(n), {.before = reach, .after = reach}, out.first(n));
    }

private:
    static size_t n_past(const LayerEvidence & evidence, int kv_head) {
        const auto lane = evidence.positions.row(kv_head);
        return static_cast<size_t>(std::ranges::lower_bound(lane, evidence.window_begin()) - lane.begin());
    }

    void lift(size_t n, std::span<float> scores) const {
        if (!lifts_ || n == 0) { return; }
        const auto past = scores.first(n);
        const auto mean = static_cast<float>(std::accumulate(past.begin(), past.end(), 0.0) / static_cast<double>(n));
        for (float & score : past) { score = std::max(score, mean); }
    }

    int window_;
    Pooling pooling_;
    bool lifts_;
};

}  // namespace

ScorerInfo worst_scorer() {
    return {"worst",
            "the most that any of the last queries paid",
            "max over g and the window's queries of pool(A[g,i,·])_j, at least its mean over the lane",
            "Taming the Fragility of KV Cache Eviction in LLM Inference (DefensiveKV)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Worst>(options); }};
}

}  // namespace pith
