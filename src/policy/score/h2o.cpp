// h2o.cpp - heavy hitters: the attention an entry has drawn from all queries so far. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[g,j] = Σ over all queries i seen so far of A[g,i,j], carried through compaction; then the group.
//   normalise=visible  divides by the number of observed queries that could see j (the sum favours old entries)
//   observe=256        sums over the last 256 queries only
//   recent=half        protects half of the budget, as the original does
// Paper:   H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models.
// Differs: protects 32 recent entries unless recent=half; works per KV head; one budget for heavy and recent entries together.
#include <algorithm>

#include "policy/score/attention_scorer.h"
#include "policy/score/recent.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kRecentOption,
    word_option("normalise", "none", "none|visible", "visible: divide by the number of queries that could see the entry"),
    integer_option("observe", "all", 1, 1 << 24, "count only the last so many queries", "all"),
    kGroupOption,
};

class H2O final : public AttentionScorer {
public:
    explicit H2O(const Options & options)
        : AttentionScorer(parse_group(options)),
          recent_(options),
          visible_(options.is("normalise", "visible")),
          observe_(static_cast<int>(options.integer("observe"))) {}

    EvidenceNeeds needs() const override { return {.running_sum = true, .running_last = observe_}; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("h2o", "running_sum", evidence.running_sum, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto sums = evidence.running_sum.row(head);
        std::copy(sums.begin(), sums.end(), out.begin());
        if (!visible_) { return; }
        const auto positions = evidence.positions.row(head / evidence.n_group);
        const int64_t most = observe_ > 0 ? observe_ : evidence.n_seen;
        for (size_t j = 0; j < out.size(); ++j) {
            const int64_t n_visible = std::clamp<int64_t>(evidence.n_seen - positions[j], 1, std::max<int64_t>(most, 1));
            out[j] /= static_cast<float>(n_visible);
        }
    }

private:
    RecentRule recent_;
    bool visible_;
    int observe_;  // 0: all
};

}  // namespace

ScorerInfo h2o_scorer() {
    return {"h2o",
            "attention drawn from all queries so far",
            "Σ_i A[g,i,j] over all queries so far",
            "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<H2O>(options); }};
}

}  // namespace pith
