// hadamard.h - rows rotated by an orthonormal Hadamard matrix, which spreads what one element holds over all of them. Stage:
// all. Pure C++: no ggml, no I/O.
//
// Few large elements in a row make its rounding to few bits coarse: after the rotation there are none. The matrix is symmetric
// and its own inverse: rotated twice, a row is as it was, but for rounding; products of two rotated rows are those of the rows.
// Rows whose length is no power of two are rotated in blocks.
#pragma once

#include <cstddef>
#include <span>

namespace pith {

// The largest power of two that divides n.
constexpr int hadamard_block(int n) {
    return n & -n;
}

// Rotates each block of `block` floats, a power of two. REQUIRES: rows.size() is a multiple of it.   Cost: log2(block) each.
void rotate_hadamard(std::span<float> rows, int block);

}  // namespace pith
