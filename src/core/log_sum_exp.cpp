// log_sum_exp.cpp - sixteen exponentials at once. Stage: core.
#include "core/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/simd.h"

namespace pith {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

PITH_CLONES float largest_of(const float * logits, int64_t n) {
    FloatVec largest = FloatVec{} + kNothing;
    for (int64_t i = 0; i < n; i += kFloatLanes) {
        FloatVec x;
        load_first(x, logits + i, std::min<int64_t>(n - i, kFloatLanes), kNothing);
        largest = x > largest ? x : largest;
    }
    return max_of(largest);
}

PITH_CLONES double sum_of_exponentials(const float * logits, int64_t n, float largest) {
    double sum = 0;
    for (int64_t i = 0; i < n; i += kFloatLanes) {
        FloatVec x;
        load_first(x, logits + i, std::min<int64_t>(n - i, kFloatLanes), kNothing);
        x = x - largest;
        exp_nonpositive(x);
        sum += sum_of(x);
    }
    return sum;
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
    const float largest = largest_of(logits.data(), std::ssize(logits));
    return largest + std::log(sum_of_exponentials(logits.data(), std::ssize(logits), largest));
}

}  // namespace pith
