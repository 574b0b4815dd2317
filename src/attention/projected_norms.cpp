// projected_norms.cpp - the fused product and reduction.
#include "attention/projected_norms.h"

#include <algorithm>
#include <cstdint>

#include "core/multiversion.h"

namespace pith {
namespace {

constexpr int kEntries = 4;
constexpr int kVectors = PackedColumns::kColumns / kFloatLanes;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// sums[e] += Σ over the panel's columns of f(v_e·W).
template <bool kSquared>
PITH_ALWAYS_INLINE void add_panel(const float * const values[kEntries], const float * panel, int dv, float sums[kEntries]) {
    FloatVec product[kEntries][kVectors] = {};
    for (int c = 0; c < dv; ++c) {
        FloatVec w[kVectors];
        for (int i = 0; i < kVectors; ++i) { load(w[i], panel + c * PackedColumns::kColumns + i * kFloatLanes); }
        for (int e = 0; e < kEntries; ++e) {
            for (int i = 0; i < kVectors; ++i) { product[e][i] += w[i] * values[e][c]; }
        }
    }
    for (int e = 0; e < kEntries; ++e) {
        FloatVec sum = {};
        for (int i = 0; i < kVectors; ++i) {
            const FloatVec p = product[e][i];
            sum += kSquared ? p * p : (p < 0.0F ? -p : p);
        }
        float total = 0;
        for (int l = 0; l < kFloatLanes; ++l) { total += sum[l]; }
        sums[e] += total;
    }
}

// values [n][dv]; panels outermost, so that one stays in the nearest cache while all entries meet it.
template <bool kSquared>
PITH_ALWAYS_INLINE void sum_all(const float * values, int64_t n, int dv, const float * panels, int n_panels, float * out) {
    std::fill_n(out, n, 0.0F);
    for (int p = 0; p < n_panels; ++p) {
        const float * panel = panels + static_cast<int64_t>(p) * dv * PackedColumns::kColumns;
        for (int64_t first = 0; first < n; first += kEntries) {
            const float * rows[kEntries];
            float sums[kEntries] = {};
            // The last block repeats its last entry.
            for (int e = 0; e < kEntries; ++e) { rows[e] = values + std::min(first + e, n - 1) * dv; }
            add_panel<kSquared>(rows, panel, dv, sums);
            for (int e = 0; e < kEntries && first + e < n; ++e) { out[first + e] += sums[e]; }
        }
    }
}

PITH_CLONES void sum_magnitudes(const float * values, int64_t n, int dv, const float * panels, int n_panels, float * out) {
    sum_all<false>(values, n, dv, panels, n_panels, out);
}

PITH_CLONES void sum_squares(const float * values, int64_t n, int dv, const float * panels, int n_panels, float * out) {
    sum_all<true>(values, n, dv, panels, n_panels, out);
}

#pragma GCC diagnostic pop

template <bool kSquared>
void compute(ggml_tensor * dst, int ith, int nth, void * data) {
    const auto & columns = *static_cast<const PackedColumns *>(data);
    const int64_t n = dst->ne[0];
    const int64_t per_thread = (n + nth - 1) / nth;
    const int64_t first = std::min(n, per_thread * ith);
    const int64_t count = std::min(n - first, per_thread);
    if (count <= 0) { return; }
    const float * values = static_cast<const float *>(dst->src[0]->data) + first * columns.dv();
    float * out = static_cast<float *>(dst->data) + first;
    (kSquared ? sum_squares : sum_magnitudes)(values, count, columns.dv(), columns.data(), columns.n_panels(), out);
}

}  // namespace

ggml_tensor * build_projected_sums(ggml_context * ctx, ggml_tensor * values, const PackedColumns & columns, ColumnNorm norm) {
    ggml_tensor * args[] = {values};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, values->ne[1], 1, 1, 1, args, 1,
                          norm == ColumnNorm::kSquares ? compute<true> : compute<false>, GGML_N_TASKS_MAX,
                          const_cast<PackedColumns *>(&columns));
}

}  // namespace pith
