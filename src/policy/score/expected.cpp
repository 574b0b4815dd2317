// expected.cpp - the attention that queries still to come are expected to pay. Stage: score.
// Pure C++: no ggml, no I/O.
//
// p[g,·] = softmax over the lane, its sinks left out, of the expected exponent (evidence: a Gaussian fit of the queries,
// rotated over the next `future` positions); sinks, the first positions, have p = 0 and are always kept; score[h,j] = (group of
// p[g,j] + eps) · |v_j|₂. Per query head: (p[g,j] + eps) · |v_j|₂. Paper:   Expected Attention: KV Cache Compression by
// Estimating Attention from Future Queries Distribution. Source:  its authors' code (kvpress), which leaves out 4 sinks.
// Differs: eps 0 by default and |v_j|₂, not |v_j·W_O|₂; a recent window is protected (recent=0 removes it).
#include <algorithm>
#include <cmath>

#include "policy/score/attention_scorer.h"
#include "policy/score/recent.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("future", "512", 1, 1 << 20, "next positions whose queries are expected"),
    real_option("eps", "0", 0, 1, "added to the expected attention, so that large values count by themselves"),
    word_option("vnorm", "on", "on|off", "on: times the value's norm"),
    integer_option("sinks", "4", 0, 1 << 24, "first positions, outside of the softmax and protected"),
    kGroupOption,
    kRecentOption,
};

class Expected final : public AttentionScorer {
public:
    explicit Expected(const Options & options)
        : AttentionScorer(parse_group(options)),
          future_(static_cast<int>(options.integer("future"))),
          eps_(static_cast<float>(options.real("eps"))),
          value_norm_(options.is("vnorm", "on")),
          sinks_(static_cast<int>(options.integer("sinks"))),
          recent_(options) {}

    EvidenceNeeds needs() const override { return {.expected_future = future_, .value_l2 = value_norm_}; }
    int n_sinks() const override { return sinks_; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(AttentionScorer::score(evidence, scores));
        weigh_by_value(evidence, 1, scores);
        return {};
    }

    Status score_heads(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(AttentionScorer::score_heads(evidence, scores));
        weigh_by_value(evidence, evidence.n_group, scores);
        return {};
    }

protected:
    Status check(const LayerEvidence & evidence) const override {
        PITH_RETURN_IF_ERROR(require_rows("expected", "expected", evidence.expected, evidence, true));
        return value_norm_ ? require_rows("expected", "value_l2", evidence.value_l2, evidence, false) : Status{};
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto exponents = evidence.expected.row(head);
        const auto positions = evidence.positions.row(head / evidence.n_group);
        const auto first =
            static_cast<size_t>(std::lower_bound(positions.begin(), positions.end(), sinks_) - positions.begin());
        std::fill(out.begin(), out.end(), 0.0F);
        if (first == out.size()) { return; }
        const float most = *std::max_element(exponents.begin() + static_cast<std::ptrdiff_t>(first), exponents.end());
        double sum = 0;
        for (size_t j = first; j < out.size(); ++j) {
            out[j] = std::exp(exponents[j] - most);
            sum += out[j];
        }
        for (float & p : out) { p = static_cast<float>(p / sum); }
    }

private:
    void weigh_by_value(const LayerEvidence & evidence, int rows_per_lane, Ragged<float> & scores) const {
        for (int r = 0; r < scores.n_rows(); ++r) {
            const auto row = scores.row(r);
            for (float & score : row) { score += eps_; }
            if (!value_norm_) { continue; }
            const auto norms = evidence.value_l2.row(r / rows_per_lane);
            for (size_t j = 0; j < row.size(); ++j) { row[j] *= norms[j]; }
        }
    }

    int future_;
    float eps_;
    bool value_norm_;
    int sinks_;
    RecentRule recent_;
};

}  // namespace

ScorerInfo expected_scorer() {
    return {"expected",
            "attention expected from queries still to come, times the value's norm",
            "softmax_j(k·μ/√d + k·Σ·k/2d) · ‖v_j‖₂",
            "Expected Attention: KV Cache Compression by Estimating Attention from Future Queries Distribution",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Expected>(options); }};
}

}  // namespace pith
