// log_sum_exp.cpp - sixteen exponentials at once. Stage: core.
#include "core/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/simd.h"

namespace pith {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

PITH_CLONES float largest_of(const float * logits, int64_t n) {
    EightFloats largest = EightFloats{} + kNothing;
    for (int64_t i = 0; i < n; i += kEightLanes) {
        EightFloats x;
        load_first(x, logits + i, std::min<int64_t>(n - i, kEightLanes), kNothing);
        largest = x > largest ? x : largest;
    }
    return max_of(largest);
}

// Sixteen at once, as two of eight.
PITH_CLONES double sum_of_exponentials(const float * logits, int64_t n, float largest) {
    double sum = 0;
    for (int64_t i = 0; i < n; i += kFloatLanes) {
        EightFloats low;
        EightFloats high;
        load_first(low, logits + i, std::min<int64_t>(n - i, kEightLanes), kNothing);
        load_first(high, logits + std::min(n, i + kEightLanes), std::clamp<int64_t>(n - i - kEightLanes, 0, kEightLanes),
                   kNothing);
        low = low - largest;
        high = high - largest;
        exp_nonpositive(low);
        exp_nonpositive(high);
        sum += sum_of(low + high);
    }
    return sum;
}

#pragma GCC diagnostic pop

}  // namespace

double log_sum_exp(std::span<const float> logits) {
    const float largest = largest_of(logits.data(), std::ssize(logits));
    return largest + std::log(sum_of_exponentials(logits.data(), std::ssize(logits), largest));
}

}  // namespace pith
