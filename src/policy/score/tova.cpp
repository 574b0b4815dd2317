// tova.cpp - the attention of the last query. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[g,j] = A[g,last,j]; then the group.  heads=layer: the mean over all query heads of the layer, so that lanes that hold
// the same positions get the same plan, as in the original. Where lanes differ (another allocator, another policy before),
// an entry's mean is over the heads whose lane still holds its position (decision).
// Paper:   Transformers are Multi-State RNNs (TOVA).
// Differs: per KV head by default; a recent window is protected (recent=0 removes it).
#include <algorithm>
#include <vector>

#include "policy/score/attention_scorer.h"
#include "policy/score/recent.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    kRecentOption,
    word_option("heads", "lane", "lane|layer", "layer: one score for all heads of a layer, as the original"),
    kGroupOption,
};

class Tova final : public AttentionScorer {
public:
    explicit Tova(const Options & options)
        : AttentionScorer(parse_group(options)), recent_(options), whole_layer_(options.is("heads", "layer")) {}

    EvidenceNeeds needs() const override { return {.last_query = true}; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    bool has_head_scores() const override { return !whole_layer_ && AttentionScorer::has_head_scores(); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        if (!whole_layer_) { return AttentionScorer::score(evidence, scores); }
        PITH_RETURN_IF_ERROR(check(evidence));
        scores = make_lane_scores(evidence);
        average_by_position(evidence, scores);
        return {};
    }

protected:
    Status check(const LayerEvidence & evidence) const override {
        return require_rows("tova", "last_query", evidence.last_query, evidence, true);
    }

    void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const override {
        const auto row = evidence.last_query.row(head);
        std::copy(row.begin(), row.end(), out.begin());
    }

private:
    static void average_by_position(const LayerEvidence & evidence, Ragged<float> & scores) {
        int32_t n_positions = 0;
        for (const int32_t position : evidence.positions.flat()) { n_positions = std::max(n_positions, position + 1); }
        std::vector<float> sum(static_cast<size_t>(n_positions), 0.0F);
        std::vector<int> count(static_cast<size_t>(n_positions), 0);
        for (int head = 0; head < evidence.last_query.n_rows(); ++head) {
            const auto positions = evidence.positions.row(head / evidence.n_group);
            const auto row = evidence.last_query.row(head);
            for (size_t j = 0; j < row.size(); ++j) {
                sum[static_cast<size_t>(positions[j])] += row[j];
                ++count[static_cast<size_t>(positions[j])];
            }
        }
        const auto positions = evidence.positions.flat();
        const auto out = scores.flat();
        for (size_t j = 0; j < out.size(); ++j) {
            const auto p = static_cast<size_t>(positions[j]);
            out[j] = sum[p] / static_cast<float>(count[p]);
        }
    }

    RecentRule recent_;
    bool whole_layer_;
};

}  // namespace

ScorerInfo tova_scorer() {
    return {"tova",
            "attention of the last query",
            "A[g,last,j]",
            "Transformers are Multi-State RNNs (TOVA)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Tova>(options); }};
}

}  // namespace pith
