// gate.cpp - what the model's trained gates say of an entry: score = its retention probability. Stage: score.
// Pure C++: no ggml, no I/O.
//
// The gates' threshold plays no part here: any budget takes the entries that the gates would rather keep. Entries that no gate
// was asked about (decoded ones, those of layers without a gate) score 1.
// Paper: In-context KV-Cache Eviction for LLMs via Attention-Gate.   Differs: the paper has the threshold only (policy
// `gated`); a recent window is protected as for other scorers that look at no window of their own (recent=0 removes it).
#include <algorithm>

#include "policy/score/recent.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {kRecentOption};

class GateScorer final : public Scorer {
public:
    explicit GateScorer(const Options & options) : recent_(options) {}

    bool is_absolute() const override { return true; }
    EvidenceNeeds needs() const override { return {.retention = true}; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(require_rows("gate", "retention", evidence.retention, evidence, false));
        scores = make_lane_scores(evidence);
        std::ranges::copy(evidence.retention.flat(), scores.flat().begin());
        return {};
    }

private:
    RecentRule recent_;
};

}  // namespace

ScorerInfo gate_scorer() {
    return {"gate",
            "the model's gates' retention probability (needs gates)",
            "the retention probability that the model's gate gives it; 1 where none was asked",
            "In-context KV-Cache Eviction for LLMs via Attention-Gate",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<GateScorer>(options); }};
}

}  // namespace pith
