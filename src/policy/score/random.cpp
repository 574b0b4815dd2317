// random.cpp - a hash of (seed, layer, KV head, position): the baseline every table must show. Stage: score.
// Pure C++: no ggml, no I/O.
// Stateless, so that an entry's score stays the same from one eviction to the next and from run to run.
#include "policy/score/recent.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr OptionSpec kOptions[] = {
    integer_option("seed", "0", 0, 2147483647, "another number, another choice"),
    kRecentOption,
};

// SplitMix64's finaliser (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
}

class Random final : public Scorer {
public:
    explicit Random(const Options & options) : seed_(static_cast<uint64_t>(options.integer("seed"))), recent_(options) {}

    int n_recent(int64_t budget) const override { return recent_.count(budget); }

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override {
        scores = make_lane_scores(evidence);
        for (int h = 0; h < evidence.n_kv_heads; ++h) {
            const uint64_t lane = mix(mix(mix(seed_) + static_cast<uint64_t>(evidence.layer)) + static_cast<uint64_t>(h));
            const auto positions = evidence.positions.row(h);
            const auto out = scores.row(h);
            for (size_t j = 0; j < out.size(); ++j) {
                const uint64_t bits = mix(lane + static_cast<uint64_t>(positions[j])) >> 40U;  // 24 bits: exact in f32
                out[j] = static_cast<float>(bits) * 0x1p-24F;
            }
        }
        return {};
    }

private:
    uint64_t seed_;
    RecentRule recent_;
};

}  // namespace

ScorerInfo random_scorer() {
    return {"random",
            "keeps entries at random: the baseline to beat",
            "hash of seed, layer, head, position",
            "",
            kOptions,
            [](const Options & options) -> std::shared_ptr<const Scorer> { return std::make_shared<Random>(options); }};
}

}  // namespace pith
