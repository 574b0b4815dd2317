// fidelity.h - how far apart two vectors, two rankings or two sets of entries are: the numbers of `pith inspect`. Stage:
// inspect. Pure functions; sums in f64.   Threads: const-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/evidence/layer_view.h"

namespace pith {

double l1_norm(std::span<const float> a);
double l1_distance(std::span<const float> a, std::span<const float> b);  // REQUIRES: same size
// 1 for two zero vectors, 0 when one of them is zero.
double cosine_similarity(std::span<const float> a, std::span<const float> b);
// |a - b|₂ / |a|₂; 0 for two zero vectors.
double relative_error(std::span<const float> a, std::span<const float> b);

// Spearman's rank correlation; equal values share the mean of their ranks. 1 where both are constant or there are fewer than
// two values, 0 where one is constant. REQUIRES: same size.
double spearman(std::span<const float> a, std::span<const float> b);

struct SetCounts {
    int64_t n_both = 0;
    int64_t n_either = 0;
    double jaccard() const { return n_either > 0 ? static_cast<double>(n_both) / static_cast<double>(n_either) : 1; }
};
// Ascending positions. Adds to `counts`.
void count_overlap(std::span<const int32_t> a, std::span<const int32_t> b, SetCounts & counts);

// Σ attention[j] over entries of a lane whose position is in `kept`; both ascending.
double kept_mass(std::span<const float> attention, std::span<const int32_t> positions, std::span<const int32_t> kept);

// Assumption 3.4 of CriticalKV: the entries that no policy may evict, and the best ⌊alpha · n_kept_candidates⌋ others by score,
// ascending. Their attention is σ.
std::vector<int32_t> first_stage(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n_candidates,
                                 double alpha);

}  // namespace pith
