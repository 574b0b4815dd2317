// fast_exp2.h - powers of two of 16 numbers at once, for softmax rows. Stage: attention.
//
// Relative error below 5e-7 for x in [-100, 0]; exactly 1 at 0; 0 below -100, where a probability is under 1e-30. A NaN stays
// one when its nine lowest bits are 0, as they are in all that arithmetic makes.
// Only inside functions marked PITH_CLONES: vectors do not cross calls.
#pragma once

#include <cstdint>

#include "core/multiversion.h"

namespace pith {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef int32_t IntVec __attribute__((vector_size(64)));

// result = 2^x for x <= 0.
PITH_ALWAYS_INLINE void fast_exp2(const FloatVec & x, FloatVec & result) {
    constexpr float kRound = 12582912.0F;  // 1.5 · 2^23: adding it rounds to an integer, held in the low bits
    constexpr float kLowest = -100.0F;
    const FloatVec shifted = x + kRound;
    const FloatVec f = x - (shifted - kRound);  // [-0.5, 0.5]
    // 1 + f·q(f), q through (2^f - 1) / f at the Chebyshev nodes.
    FloatVec p = f * 0.0013381456966267357F + 0.00966636836528778F;
    p = p * f + 0.05550380423665047F;
    p = p * f + 0.2402234971523285F;
    p = p * f + 0.6931471824645996F;
    p = p * f + 1.0F;
    const IntVec power = reinterpret_cast<IntVec>(p) + (reinterpret_cast<IntVec>(shifted) << 23);
    result = reinterpret_cast<FloatVec>(power & ~(x < kLowest));
}

#pragma GCC diagnostic pop

}  // namespace pith
