// evidence_maker.h - random evidence for tests: ragged lanes, values on a coarse grid so that ties are many and sums exact.
#pragma once

#include <random>
#include <vector>

#include "core/evidence.h"
#include "core/shape.h"

namespace pith::test {

using Rng = std::mt19937;

int random_int(Rng & rng, int low, int high);  // both included

// Evidence of every kind for lanes that hold the given positions; the newest position is at most n_seen - 1.
LayerEvidence make_evidence(Rng & rng, const CacheShape & shape, int layer, int n_seen,
                            const std::vector<std::vector<int32_t>> & positions);

// All layers: lanes that hold a random part of n_seen positions (some short, a few empty), or all of them.
std::vector<LayerEvidence> make_ragged(Rng & rng, const CacheShape & shape, int n_seen);
std::vector<LayerEvidence> make_equal(Rng & rng, const CacheShape & shape, int n_seen);

}  // namespace pith::test
