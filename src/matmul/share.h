// share.h - what each thread computes of a product. Stage: matmul.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

namespace pith {

// Of n things, dealt in whole units: the first that thread ith of n_threads gets, and the one behind its last.
inline std::pair<size_t, size_t> share_of(size_t n, size_t unit, int ith, int n_threads) {
    const size_t n_units = (n + unit - 1) / unit;
    const auto begin_of = [&](int thread) {
        return std::min(n, n_units * static_cast<size_t>(thread) / static_cast<size_t>(n_threads) * unit);
    };
    return {begin_of(ith), begin_of(ith + 1)};
}

}  // namespace pith
