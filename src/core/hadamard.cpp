// hadamard.cpp - the fast Walsh-Hadamard transform: sums and differences of neighbours, ever further apart.
#include "core/hadamard.h"

#include <cmath>
#include <utility>

#include "core/simd.h"

namespace pith {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

// Lane i becomes the sum of lanes i and i ^ kDistance, or, where that bit of i is set, their difference.
template <int kDistance, int... kLane>
PITH_ALWAYS_INLINE void add_neighbours(FloatVec & v, std::integer_sequence<int, kLane...>) {
    const FloatVec others = __builtin_shufflevector(v, v, (kLane ^ kDistance)...);
    const FloatVec signs = {((kLane & kDistance) == 0 ? 1.0F : -1.0F)...};
    v = others + signs * v;
}

PITH_ALWAYS_INLINE void rotate_lanes(FloatVec & v) {
    constexpr auto kLanes = std::make_integer_sequence<int, kFloatLanes>();
    add_neighbours<1>(v, kLanes);
    add_neighbours<2>(v, kLanes);
    add_neighbours<4>(v, kLanes);
    add_neighbours<8>(v, kLanes);
}

PITH_CLONES void rotate_block(float * x, int n, float scale) {
    for (int i = 0; i < n; i += kFloatLanes) {
        FloatVec v;
        load(v, x + i);
        rotate_lanes(v);
        store(x + i, v * scale);
    }
    for (int half = kFloatLanes; half < n; half *= 2) {
        for (int first = 0; first < n; first += 2 * half) {
            for (int i = first; i < first + half; i += kFloatLanes) {
                FloatVec a;
                FloatVec b;
                load(a, x + i);
                load(b, x + i + half);
                store(x + i, a + b);
                store(x + i + half, a - b);
            }
        }
    }
}

#pragma GCC diagnostic pop

void rotate_small_block(float * x, int n, float scale) {
    for (int half = 1; half < n; half *= 2) {
        for (int first = 0; first < n; first += 2 * half) {
            for (int i = first; i < first + half; ++i) {
                const float a = x[i];
                const float b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
    for (int i = 0; i < n; ++i) { x[i] *= scale; }
}

}  // namespace

void rotate_hadamard(std::span<float> rows, int block) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(block));
    const auto rotate = block < kFloatLanes ? rotate_small_block : rotate_block;
    for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(block)) { rotate(rows.data() + i, block, scale); }
}

}  // namespace pith
