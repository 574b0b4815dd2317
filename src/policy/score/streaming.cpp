// streaming.cpp - attention sinks and the newest entries; what an entry holds does not matter. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score = original position, exact in f32 up to 2^24; sinks are protected.
// Paper:   Efficient Streaming Language Models with Attention Sinks.
// Differs: keys keep their original rotation (the original re-rotates them at cache positions in every step).
#include <algorithm>

#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("sinks", "4", 0, 1 << 24, "first positions that are protected"),
};

class Streaming final : public Scorer {
public:
    explicit Streaming(const Options & options) : n_sinks_(static_cast<int>(options.integer("sinks"))) {}

    bool by_position() const override { return true; }
    int n_sinks() const override { return n_sinks_; }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        scores = make_lane_scores(evidence);
        const auto positions = evidence.positions.flat();
        std::transform(positions.begin(), positions.end(), scores.flat().begin(),
                       [](int32_t position) { return static_cast<float>(position); });
        return {};
    }

private:
    int n_sinks_;
};

}  // namespace

ScorerInfo streaming_scorer() {
    return {"streaming",
            "the first positions and the newest entries, whatever they hold",
            "position",
            "Efficient Streaming Language Models with Attention Sinks (StreamingLLM)",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Streaming>(options); }};
}

}  // namespace pith
