// rounding.h - how far the CPU's attention may be from plain f64 code, and two ways of computing it from each other.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "attention/cpu/cpu_kernels.h"

namespace pith::testing {

// As shares of the largest number of a result:
inline constexpr double kF32Rounding = 1e-5;
// Few rows over stored codes in whole numbers (cpu_dot_integer-inl.h): queries and weights have 16 bits.
inline constexpr double kCodeRounding = 1e-4;
// Many rows in 16-bit whole numbers (cpu_word_products-inl.h): half a unit of f16, which is what storing K and V in f16 may
// have cost before. Each number of a query or key is off by at most half of the row's length / 32767, so a score by |q| |k|
// sqrt(d) / 32767 (Cauchy and Schwarz): up to heads of 256 numbers no more than the |q| |k| / 2048 of keys rounded to f16.
// Values are off by 1 / 32740 of their row's largest number, weights by 1 / 65534 of the largest of their block.
// word_products_test.cpp measures less than f16's rounding costs.
inline constexpr double kWordRounding = 1.0 / 2048;

// What n_rows rows of queries of a lane lose over such entries.
inline double attention_rounding(KvFormat k, KvFormat v, int head_dim, int n_rows, bool has_values = true) {
    const auto is_code = [](KvFormat format) { return format == KvFormat::kQ8_0 || format == KvFormat::kQ4_0; };
    if (n_rows > kMaxDotRows) {
        return cpu_attention_multiplies_words(k, has_values ? v : k, head_dim) ? kWordRounding : kF32Rounding;
    }
    const bool is_integer = std::string_view(cpu_attention_target()) == "AVX3_DL";
    return has_values && is_integer && (is_code(k) || is_code(v)) ? kCodeRounding : kF32Rounding;
}

// What each number of a result may be off by: `absolute`, or `share` of the largest.
inline double most_off(const std::vector<double> & expected, double share, double absolute = kF32Rounding) {
    double largest = 0;
    for (const double one : expected) { largest = std::max(largest, std::abs(one)); }
    return std::max(absolute, share * largest);
}

}  // namespace pith::testing
