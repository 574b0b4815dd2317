// row_distances.h - mean distances between heads over all pairs of their sampled attention rows, for distances that have no
// shortcut through the rows' mean. Stage: allocate. Pure C++: no ggml, no I/O.
//
//   Euclidean         D(a,b)² = Σ (a_i - b_i)²
//   Jensen–Shannon    D(a,b)² = H((a + b)/2) - (H(a) + H(b))/2, in bits
//                             = ½ [Σ a log₂ a + a + Σ b log₂ b + b - Σ (a + b) log₂ (a + b)]
// A row is looked at up to where its query saw: behind that it is 0, and what the longer row of a pair has there is known from
// the row alone. So a pair costs as many columns as the shorter row has, a third of the positions on average; of each column a
// difference and a multiply-add, or a logarithm by a polynomial: rows are taken four by four in vectors, blocks of columns stay
// in the cache, and pairs of heads are dealt out to threads. Differences are squared as they are: |a|² + |b|² - 2ab would save
// half of that work, and lose in f32 what tells heads apart that hardly differ.
// Error:   a relative 1e-6 of Euclidean distances. Of Jensen–Shannon divergences an absolute 1e-6 bits or less: 1e-6 of a
//          distance of a half, up to 1e-3 where two rows are the same (a row and itself are 0 apart).
// Memory:  the rows of one layer up to where they see, half of H·k·n floats; 8 bytes for 64 of these. A task: 128 KiB.
// Threads: const-safe.
// Paper:   SCORE, equations (4) to (8).
#pragma once

#include <cstddef>
#include <vector>

#include "core/tasks.h"
#include "policy/evidence/evidence.h"

namespace pith {

// The sampled rows of one layer's heads by position. A position that a lane lacks counts as 0.
class SampledRows {
public:
    static constexpr size_t kTile = 4;   // rows stored together, as long as the longest of them
    static constexpr size_t kGrid = 64;  // lengths are multiples of it

    SampledRows() = default;
    // REQUIRES: evidence.sampled_rows fits the lanes; distance is kJensenShannon or kEuclidean.
    SampledRows(const LayerEvidence & evidence, HeadDistance distance);

    size_t n_heads() const { return n_heads_; }
    size_t n_sampled() const { return n_sampled_; }
    size_t n_tiles() const { return (n_sampled_ + kTile - 1) / kTile; }  // of a head
    size_t length(size_t head, size_t tile) const { return lengths_[head * n_tiles() + tile]; }
    const float * tile(size_t head, size_t tile) const { return values_.data() + offsets_[head * n_tiles() + tile]; }
    // What a row adds to the square of a distance by itself, when columns [0, end) are compared with the other row's.
    double alone(size_t head, size_t query, size_t end) const {
        const size_t row = head * n_tiles() * kTile + query;
        return alone_[grid_offsets_[row / kTile] + row % kTile * (lengths_[row / kTile] / kGrid + 1) + end / kGrid];
    }

private:
    size_t n_heads_ = 0;
    size_t n_sampled_ = 0;
    std::vector<size_t> lengths_;       // [tile]
    std::vector<size_t> offsets_;       // [tile] into values_
    std::vector<size_t> grid_offsets_;  // [tile] into alone_
    std::vector<float> values_;         // [tile][kTile][length]
    std::vector<double> alone_;         // [tile][kTile][length / kGrid + 1]
};

// means [a.n_heads()][b.n_heads()]: the mean distance over all pairs of rows of the two heads; 1 where there are no rows.
// a and b may be the same object: then half of the pairs of heads are computed.
// Errors: kOutOfMemory; those of `run`.   Cost: O(heads · heads · rows · rows · positions).
Status mean_row_distances(const SampledRows & a, const SampledRows & b, HeadDistance distance, const RunTasks & run,
                          std::vector<double> & means);

}  // namespace pith
