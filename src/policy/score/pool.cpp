// pool.cpp - pooling along a lane. One pass per kernel tap, so that each pass is a plain vector loop.
#include "policy/score/pool.h"

#include <algorithm>
#include <cstddef>

namespace pith {
namespace {

// Calls tap(out index, in index) for the whole row, tap by tap in ascending order of the in index.
template <class Tap>
void for_each_tap(std::ptrdiff_t n, PoolKernel kernel, Tap tap) {
    for (std::ptrdiff_t offset = -kernel.before; offset <= kernel.after; ++offset) {
        const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, -offset);
        const std::ptrdiff_t end = std::min(n, n - offset);
        for (std::ptrdiff_t j = begin; j < end; ++j) { tap(j, j + offset); }
    }
}

}  // namespace

void pool_max(std::span<const float> in, PoolKernel kernel, std::span<float> out) {
    const float * x = in.data();
    float * y = out.data();
    std::copy(in.begin(), in.end(), out.begin());
    for_each_tap(std::ssize(in), kernel, [=](auto j, auto i) { y[j] = x[i] > y[j] ? x[i] : y[j]; });
}

void pool_avg(std::span<const float> in, PoolKernel kernel, PoolEdges edges, std::span<float> out) {
    const float * x = in.data();
    float * y = out.data();
    const std::ptrdiff_t n = std::ssize(in);
    std::fill(out.begin(), out.end(), 0.0F);
    for_each_tap(n, kernel, [=](auto j, auto i) { y[j] += x[i]; });
    for (std::ptrdiff_t j = 0; j < n; ++j) {
        const std::ptrdiff_t count = std::min(n - 1, j + kernel.after) - std::max<std::ptrdiff_t>(0, j - kernel.before) + 1;
        y[j] /= static_cast<float>(edges == PoolEdges::kCount ? count : kernel.size());
    }
}

}  // namespace pith
