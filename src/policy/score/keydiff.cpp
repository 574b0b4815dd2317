// keydiff.cpp - keys that point away from the others are worth keeping: score = -cos(k_j, mean unit key). Stage: score.
// Pure C++: no ggml, no I/O.
// Paper:   KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained Environments.
// Differs: a recent window is protected (recent=0 removes it); the mean is over the entries the lane holds now.

#include "policy/score/recent.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {kRecentOption};

class KeyDiff final : public Scorer {
public:
    explicit KeyDiff(const Options & options) : recent_(options) {}

    EvidenceNeeds needs() const override { return {.key_cosine = true}; }
    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        PITH_RETURN_IF_ERROR(require_rows("keydiff", "key_cosine", evidence.key_cosine, evidence, false));
        scores = evidence.key_cosine;
        for (float & score : scores.flat()) { score = -score; }
        return {};
    }

private:
    RecentRule recent_;
};

}  // namespace

ScorerInfo keydiff_scorer() {
    return {
        "keydiff",
        "keys unlike the others",
        "−cos(k_j, mean of the lane's unit keys)",
        "KeyDiff: Key Similarity-Based KV Cache Eviction for Long-Context LLM Inference in Resource-Constrained Environments",
        kOptions,
        [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<KeyDiff>(options); }};
}

}  // namespace pith
