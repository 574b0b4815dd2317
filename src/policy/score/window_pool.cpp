// window_pool.cpp - cuts the window off, pools the rest, puts the window back.
#include "policy/score/window_pool.h"

#include <algorithm>

namespace pith {

namespace {

PoolKernel kernel_of(const Options & options) {
    const int reach = parse_pooling(options.word("pool")).width - 1;
    return options.is("pool_over", "before") ? PoolKernel{.before = reach}
                                             : PoolKernel{.before = reach / 2, .after = reach / 2};
}

}  // namespace

WindowPool::WindowPool(const Options & options)
    : window_(static_cast<int>(options.integer("window"))),
      largest_(parse_pooling(options.word("pool")).largest),
      kernel_(kernel_of(options)),
      edges_(options.is("pool_edges", "zero") ? PoolEdges::kZero : PoolEdges::kCount) {}

size_t WindowPool::n_past(const LayerEvidence & evidence, int kv_head) const {
    const auto positions = evidence.positions.row(kv_head);
    const auto n_before = static_cast<size_t>(std::ranges::lower_bound(positions, evidence.window_begin()) - positions.begin());
    return std::min(n_before, positions.size() - std::min(positions.size(), static_cast<size_t>(window_)));
}

void WindowPool::apply(const LayerEvidence & evidence, int kv_head, std::span<const float> in, std::span<float> out) const {
    const size_t n = n_past(evidence, kv_head);
    if (largest_) {
        pool_max(in.first(n), kernel_, out.first(n));
    } else {
        pool_avg(in.first(n), kernel_, edges_, out.first(n));
    }
    std::copy(in.begin() + static_cast<std::ptrdiff_t>(n), in.end(), out.begin() + static_cast<std::ptrdiff_t>(n));
}

}  // namespace pith
