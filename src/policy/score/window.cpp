// window.cpp - the newest entries only: sliding-window attention without sinks. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score = original position, exact in f32 up to 2^24.
#include <algorithm>

#include "policy/score/scorer.h"

namespace pith {
namespace {

class Window final : public Scorer {
public:
    bool by_position() const override { return true; }
    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        scores = make_lane_scores(evidence);
        const auto positions = evidence.positions.flat();
        std::transform(positions.begin(), positions.end(), scores.flat().begin(),
                       [](int32_t position) { return static_cast<float>(position); });
        return {};
    }
};

}  // namespace

ScorerInfo window_scorer() {
    const auto make = [](const Options &) -> std::shared_ptr<const Scorer> { return std::make_shared<Window>(); };
    return {"window", "the newest entries only", "position", "", {}, make};
}

}  // namespace pith
