// evidence_maker.h - random evidence for tests: ragged lanes, values on a coarse grid so that ties are many and sums exact.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "core/shape.h"
#include "pith/head_importance.h"
#include "policy/evidence/evidence.h"

namespace pith::test {

using Rng = std::mt19937;

int random_int(Rng & rng, int low, int high);  // both included

// Values in host memory; arithmetic in f32, as a back end's.
class HostValues final : public ValueSource {
public:
    // lanes [K][length · head_dim], entry after entry.
    HostValues(std::vector<std::vector<float>> lanes, int head_dim) : lanes_(std::move(lanes)), head_dim_(head_dim) {}

    Status distances_to_mean(const Ragged<float> & weights, Ragged<float> & out) const override;
    Status output_errors(const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out) const override;
    Status lane_values(int kv_head, std::vector<float> & out) const override;
    // W_O^head [d][kOutputs] of output_errors(): the same for all tests.
    static constexpr int kOutputs = 6;
    static double output_weight(int head, size_t c, int r) {
        return static_cast<double>((head * 31 + static_cast<int>(c) * 17 + r * 7 + head * r) % 23 - 11) / 8;
    }
    int head_dim_v() const override { return head_dim_; }

private:
    std::vector<std::vector<float>> lanes_;
    int head_dim_;
};

// Evidence of every kind for lanes that hold the given positions; the newest position is at most n_seen - 1.
LayerEvidence make_evidence(Rng & rng, const CacheShape & shape, int layer, int n_seen,
                            const std::vector<std::vector<int32_t>> & positions);

// Copy and reason scores for every query head; some are 0.
std::shared_ptr<const HeadImportance> make_importance(Rng & rng, const CacheShape & shape);

// All layers: lanes that hold a random part of n_seen positions (some short, a few empty), or all of them.
std::vector<LayerEvidence> make_ragged(Rng & rng, const CacheShape & shape, int n_seen);
std::vector<LayerEvidence> make_equal(Rng & rng, const CacheShape & shape, int n_seen);

}  // namespace pith::test
