// pooled_rows.cpp - one row at a time.
#include "evidence/pooled_rows.h"

#include <algorithm>
#include <numeric>

namespace pith {

void take_pooled_row(std::span<const float> row, int n_past, int width, std::span<float> most, std::span<float> scratch) {
    const auto past = row.first(static_cast<size_t>(n_past));
    const auto pooled = scratch.first(past.size());
    std::ranges::fill(pooled, 0.0F);
    const std::ptrdiff_t n = std::ssize(past);
    const float * x = past.data();
    float * y = pooled.data();
    for (std::ptrdiff_t offset = -(width / 2); offset <= width / 2; ++offset) {  // the sum: its scale is found below
        for (std::ptrdiff_t j = std::max<std::ptrdiff_t>(0, -offset); j < std::min(n, n - offset); ++j) {
            y[j] += x[j + offset];
        }
    }
    const double before = std::accumulate(past.begin(), past.end(), 0.0);
    const double after = std::accumulate(pooled.begin(), pooled.end(), 0.0);
    const auto scale = static_cast<float>(after > 0 ? before / after : 0.0);
    for (size_t j = 0; j < past.size(); ++j) { most[j] = std::max(most[j], pooled[j] * scale); }
    for (size_t j = past.size(); j < row.size(); ++j) { most[j] = std::max(most[j], row[j]); }
}

}  // namespace pith
