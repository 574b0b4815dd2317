// cpu_columns.h - what is asked of the attention probabilities themselves, and who adds it up. Stage: attention → evidence.
// Raw pointers only: no ggml.
//
// A[g,i,j] is what query i of head g pays to entry j. A panel of queries keeps its weights 2^(score - maximum so far) until it
// knows the maximum and the sum of its rows: one sweep over the keys (and the values, where there is an output), then one over
// weights that lie in a near cache, and no probability is computed twice. A unit of work is (lane, heads, strand of the
// queries); it adds its queries up in planes of its own, and whoever finishes the last strand of the same heads adds the
// planes to the results, in order: they do not depend on the number of threads. Few rows (decode) keep their weights by spans
// of entries instead, and the merging thread adds them up.
//
// Memory: of a thread 192 bytes per entry that its queries see (384 with group_squares); for each kind of sum planes as long as
//         a lane: as many as there are query heads, or 64 (64 · n_group with group_squares) where that is more.
// Arithmetic: f32; entropies and norms of rows in f64.
#pragma once

#include <cstddef>
#include <vector>

#include "policy/evidence/evidence.h"

namespace pith {

// A sum so far that the new one does not overwrite, or the same place.
struct SumBefore {
    const float * values;
    size_t n;
};

// Pointers per query head, [lane · n_group + g], to as many floats as the lane has entries; none: not asked for.
struct ColumnTask {
    std::vector<float *> sum;            // += Σ_i A
    std::vector<SumBefore> sum_before;   // with these: sum = them, 0 behind them, and Σ_i A
    std::vector<float *> squares;        // += Σ_i A²
    std::vector<float *> largest;        // = max(it, max_i A)
    std::vector<float *> group_squares;  // [lane] += Σ_i (mean over the group of A)²
    std::vector<float *> profile;        // += Σ_i of the row as `distance` wants it
    std::vector<float *> last;           // = A of the last query, as far as it sees
    std::vector<float *> rows;           // [(lane · n_group + g) · n_queries + i] = A, as far as the query sees
    std::vector<double *> entropy;       // += -Σ_i Σ_j A log A over the entries before the first query
    std::vector<int> past;               // [lane] how many those are; with entropy
    HeadDistance distance = HeadDistance::kCosine;

    bool any() const {
        return !sum.empty() || !squares.empty() || !largest.empty() || !group_squares.empty() || !profile.empty() ||
               !last.empty() || !rows.empty() || !entropy.empty();
    }
    void clear();
};

}  // namespace pith
