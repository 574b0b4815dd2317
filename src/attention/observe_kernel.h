// observe_kernel.h - attention rows over packed keys, and sums over them: the arithmetic of the fused observation, on plain
// arrays. Stage: attention → evidence.
//
// Keys lie in tiles [head_dim][kTileEntries], queries in groups [head_dim][kRowGroup], both padded with zeros. Rows of scores
// are padded to whole tiles. Arithmetic: f32, sums over a row in f64 every few thousand entries.   Threads: const-safe.
#pragma once

#include <cstdint>

namespace pith {

inline constexpr int kTileEntries = 32;
inline constexpr int kRowGroup = 8;

// IEEE half and bfloat16 to f32, exactly.
void halves_to_floats(const uint16_t * from, int64_t n, float * to);
void bfloats_to_floats(const uint16_t * from, int64_t n, float * to);

// rows [n][d], n at most kTileEntries  →  tile [d][kTileEntries].
void pack_tile(const float * rows, int n, int d, float * tile);

// scores [row][stride] = queries · keys over the first n_tiles tiles; entries from visible[row] on become -infinity.
// maxima [row][16]: 16 numbers whose maximum is the row's.
struct ScoreBlock {
    const float * tiles;    // [n_tiles][d][kTileEntries]
    const float * queries;  // [n_groups][d][kRowGroup]
    const int * visible;    // [n_groups · kRowGroup]
    int n_tiles;
    int n_groups;
    int d;
    int64_t stride;
    float * scores;
    float * maxima;
};
void score_rows(const ScoreBlock & block);

struct RowSums {
    double sum = 0;       // Σ 2^x, x = score - the row's maximum
    double squares = 0;   // Σ (2^x)²
    double weighted = 0;  // Σ x·2^x
};

// What a row holds after exponentiate(): 2^x, or its square root where roots are asked for too.
enum class RowForm { kPlain, kRoots };

// Turns a row of n scores (a multiple of kTileEntries) into powers of two. Without `more` only `sum` is made.
RowSums exponentiate(float * row, int64_t n, const float * maxima, RowForm form, bool more);

// The sums below run over [n_rows] rows, `stride` apart; out [n], n a multiple of kTileEntries.
struct RowBlock {
    const float * rows;
    int64_t stride;
    int n_rows;
    int64_t n;
};
// out[j] += Σ over the rows of weights[row] · row[j]^power, power 1, 2 or 4.
void add_weighted(const RowBlock & block, int power, const float * weights, float * out);
// out[j] += Σ_i (Σ_g weights[g · n_rows + i] · row[g · n_rows + i][j]^power)², power 1 or 2.
void add_group_squares(const RowBlock & block, int n_group, int power, const float * weights, float * out);

// out[j] = weight · row[j]^power, any n.
void scale_row(const float * row, int64_t n, int power, float weight, float * out);
// Σ_j (weight · row[j]^power - mean)², any n.
double centred_squares(const float * row, int64_t n, int power, float weight, float mean);

}  // namespace pith
