// evidence_maker.cpp - random evidence for tests.
#include "policy/evidence_maker.h"

#include <algorithm>
#include <numeric>

namespace pith::test {

int random_int(Rng & rng, int low, int high) {
    return low +
           static_cast<int>(rng() % static_cast<unsigned>(high - low + 1));  // not std::…_distribution: the same everywhere
}

LayerEvidence make_evidence(Rng & rng, const CacheShape & shape, int layer, int n_seen,
                            const std::vector<std::vector<int32_t>> & positions) {
    LayerEvidence evidence;
    evidence.layer = layer;
    evidence.n_kv_heads = shape.n_kv_heads;
    evidence.n_group = shape.n_group;
    evidence.n_seen = n_seen;
    evidence.n_window = std::min(n_seen, 32);
    const int n_levels = random_int(rng, 1, 40);
    const auto row = [&](size_t n) {
        std::vector<float> values(n);
        for (float & value : values) value = static_cast<float>(random_int(rng, 0, n_levels)) / 64.0F;
        return values;
    };
    for (const auto & lane : positions) {
        evidence.positions.push_row(lane);
        evidence.window_sq.push_row(row(lane.size()));
        evidence.key_norm.push_row(row(lane.size()));
        for (int g = 0; g < shape.n_group; ++g) {
            evidence.window_mean.push_row(row(lane.size()));
            evidence.last_query.push_row(row(lane.size()));
            evidence.running_sum.push_row(row(lane.size()));
        }
    }
    return evidence;
}

std::vector<LayerEvidence> make_ragged(Rng & rng, const CacheShape & shape, int n_seen) {
    std::vector<LayerEvidence> layers;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        std::vector<std::vector<int32_t>> lanes;
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const int keep_of_8 = random_int(rng, 0, 8);  // 0: an empty lane, 8: all positions
            std::vector<int32_t> lane;
            for (int32_t p = 0; p < n_seen; ++p) {
                if (random_int(rng, 1, 8) <= keep_of_8) lane.push_back(p);
            }
            lanes.push_back(lane);
        }
        layers.push_back(make_evidence(rng, shape, layer, n_seen, lanes));
    }
    return layers;
}

std::vector<LayerEvidence> make_equal(Rng & rng, const CacheShape & shape, int n_seen) {
    std::vector<int32_t> all(static_cast<size_t>(n_seen));
    std::iota(all.begin(), all.end(), 0);
    std::vector<LayerEvidence> layers;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        const std::vector<std::vector<int32_t>> lanes(static_cast<size_t>(shape.n_kv_heads), all);
        layers.push_back(make_evidence(rng, shape, layer, n_seen, lanes));
    }
    return layers;
}

}  // namespace pith::test
