// knorm.cpp - keys of small norm draw much attention: score = -|k|₂ before RoPE. Stage: score.
// Pure C++: no ggml, no I/O.
// Paper: A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression.
// A rotation keeps the norm; taken before it, equal tokens of the first layer tie, and the newer is kept.
// Differs: a recent window is protected (recent=0 removes it); the paper also leaves the first layers alone, here all take
// part.
#include <algorithm>
#include <functional>

#include "policy/score/recent.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {kRecentOption};

class KNorm final : public Scorer {
public:
    explicit KNorm(const Options & options) : recent_(options) {}

    EvidenceNeeds needs() const override { return {.key_norm = true}; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(require_rows("knorm", "key_norm", evidence.key_norm, evidence, false));
        scores = make_lane_scores(evidence);
        const auto norms = evidence.key_norm.flat();
        std::transform(norms.begin(), norms.end(), scores.flat().begin(), std::negate<>());
        return {};
    }

private:
    RecentRule recent_;
};

}  // namespace

ScorerInfo knorm_scorer() {
    return {"knorm",
            "keys of small norm",
            "−‖k_j‖₂ before RoPE",
            "A Simple and Effective L2 Norm-Based Strategy for KV Cache Compression",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<KNorm>(options); }};
}

}  // namespace pith
