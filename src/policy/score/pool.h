// pool.h - pooling along a lane, stride 1, same length. Stage: score.
// Pure C++: no ggml, no I/O.
#pragma once

#include <span>

namespace pith {

// What an average divides by where the kernel reaches over an end of the row.
enum class PoolEdges {
    kCount,  // the entries under the kernel (decision)
    kZero,   // the kernel's size, as if zeros lay outside: lowers the edges, as public code does
};

// What the kernel of an entry covers: itself, and so many entries on either side.
struct PoolKernel {
    int before = 0;
    int after = 0;
    int size() const { return before + 1 + after; }
};

// in and out f32 [n], not overlapping. Cost: O(n · kernel), vectorised, no allocation.
// Each sum runs in ascending order, so equal inputs give equal outputs wherever they lie.
void pool_max(std::span<const float> in, PoolKernel kernel, std::span<float> out);
void pool_avg(std::span<const float> in, PoolKernel kernel, PoolEdges edges, std::span<float> out);

}  // namespace pith
