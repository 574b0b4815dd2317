// hadamard.cpp - the fast Walsh-Hadamard transform: sums and differences of neighbours, ever further apart.
#include "core/hadamard.h"

#include <cmath>
#include <utility>

#include "core/simd.h"

namespace pith {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

constexpr int kLanes = kEightLanes;

// Lane i becomes the sum of lanes i and i ^ kDistance, or, where that bit of i is set, their difference.
template <int kDistance, int... kLane>
PITH_ALWAYS_INLINE void add_neighbours(EightFloats & v, std::integer_sequence<int, kLane...>) {
    const EightFloats others = __builtin_shufflevector(v, v, (kLane ^ kDistance)...);
    const EightFloats signs = {((kLane & kDistance) == 0 ? 1.0F : -1.0F)...};
    v = others + signs * v;
}

PITH_ALWAYS_INLINE void rotate_lanes(EightFloats & v) {
    constexpr auto kEach = std::make_integer_sequence<int, kLanes>();
    add_neighbours<1>(v, kEach);
    add_neighbours<2>(v, kEach);
    add_neighbours<4>(v, kEach);
}

PITH_CLONES void rotate_block(float * x, int n, float scale) {
    for (int i = 0; i < n; i += 2 * kLanes) {
        EightFloats a;
        EightFloats b;
        load(a, x + i);
        load(b, x + i + kLanes);
        rotate_lanes(a);
        rotate_lanes(b);
        store(x + i, (a + b) * scale);
        store(x + i + kLanes, (a - b) * scale);
    }
    for (int half = 2 * kLanes; half < n; half *= 2) {
        for (int first = 0; first < n; first += 2 * half) {
            for (int i = first; i < first + half; i += kLanes) {
                EightFloats a;
                EightFloats b;
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
    const auto rotate = block < 2 * kLanes ? rotate_small_block : rotate_block;
    for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(block)) { rotate(rows.data() + i, block, scale); }
}

}  // namespace pith
