// window_pool.cpp - cuts the window off, pools the rest, puts the window back.
#include "policy/score/window_pool.h"

#include <algorithm>

namespace pith {

WindowPool::WindowPool(const Options & options)
    : window_(static_cast<int>(options.integer("window"))),
      pooling_(parse_pooling(options.word("pool"))),
      edges_(options.is("pool_edges", "zero") ? PoolEdges::kZero : PoolEdges::kCount) {}

size_t WindowPool::n_past(size_t length) const {
    return length - std::min(length, static_cast<size_t>(window_));
}

void WindowPool::apply(std::span<const float> in, std::span<float> out) const {
    const size_t n = n_past(in.size());
    if (pooling_.largest) {
        pool_max(in.first(n), pooling_.width, out.first(n));
    } else {
        pool_avg(in.first(n), pooling_.width, edges_, out.first(n));
    }
    std::copy(in.begin() + static_cast<std::ptrdiff_t>(n), in.end(), out.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace pith
