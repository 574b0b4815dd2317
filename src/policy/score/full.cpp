// full.cpp - keeps everything: the reference every policy is compared with. Stage: score.
// Pure C++: no ggml, no I/O.
#include <algorithm>

#include "policy/score/scorer.h"

namespace pith {
namespace {

class Full final : public Scorer {
public:
    bool evicts() const override { return false; }
    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        scores = make_lane_scores(evidence);
        return {};
    }
};

}  // namespace

ScorerInfo full_scorer() {
    return {
        "full",
        "keeps every entry: no eviction",
        "keeps everything",
        "",
        {},
        [](const Options &) -> std::shared_ptr<const Scorer> { return std::make_shared<Full>(); },
    };
}

}  // namespace pith
