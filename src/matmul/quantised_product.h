// quantised_product.h - the CPU's product of quantised weights with rows of activations in 8 bits. Stage: matmul. Raw pointers
// only: no ggml.
//
//   out(j, i) = Σ_b scale(j, b) · ( d(i, b) · Σ_g s(i, b, g) · Σ_{c in g} w(i, c) · q(j, c)  -  dmin(i, b) · Σ_g m(i, b, g) ·
//   Σ_{c in g} q(j, c) )
// with blocks b of 256 and groups g of 32 (Q6_K: 16) as the GGUF types define them; Q8_0, Q4_0 and Q4_1 have a d, and Q4_1 a
// minimum, for each 32, and rows then a scale. Weights stay as the file has them; a panel of columns is unpacked to bytes in
// the nearest cache, all rows meet it, and the next one takes its place. Both inner sums are whole numbers and exact; floats
// come in once a block (or a group of 32), in their order: a row of x has the same bits alone, in any batch, on any number of
// threads, and on every unit of bytes (AVX2, AVX-512 VNNI, AMX). Source: ggml's block_q4_K, block_q5_K, block_q6_K (the format
// of the file); Intel 64 and IA-32 Architectures Software Developer's Manual (VPDPBUSD, TDPBSUD). Cost: n · n_out · n_in
// multiply-adds of bytes; no copy of the weights.   Threads: each a part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/quantised_rows.h"

namespace pith {

enum class QuantType { kQ4_K, kQ5_K, kQ6_K, kQ8_0, kQ4_0, kQ4_1 };
// Whether groups of 32 weights have a scale each, and rows are rounded in groups.
constexpr bool has_groups(QuantType type) {
    return type == QuantType::kQ8_0 || type == QuantType::kQ4_0 || type == QuantType::kQ4_1;
}

struct QuantisedProduct {
    QuantType type = QuantType::kQ4_K;
    const uint8_t * weights = nullptr;         // [n_out][weight_stride]
    size_t weight_stride = 0;                  // bytes from row to row
    const QuantisedBlock * x = nullptr;        // [n_in / 256][padded_rows(n)]
    const QuantisedGroups * groups = nullptr;  // instead, where has_groups(type): [⌈n_in / 256⌉][padded_rows(n)]
    float * out = nullptr;                     // [n][out_stride], overwritten
    size_t out_stride = 0;                     // floats from row to row
    size_t n_in = 0;                           // a multiple of 256; where has_groups(type), of 32
    size_t n_out = 0;
    size_t n = 0;
};

// The part of thread ith of n_threads.
void multiply_part(const QuantisedProduct & product, int ith, int n_threads);

// Whether this processor has byte products that make this faster than ggml's for such weights.
bool quantised_product_pays(QuantType type);

// Which way products go: tests and benchmarks compare them. kBest: the fastest for so many rows: columns as they lie, panels by
// vectors, or panels by the matrix unit.   kMatrix REQUIRES: has_matrix_unit().
enum class ProductUnit { kBest, kVectors, kMatrix };
void use_product_unit(ProductUnit unit);
bool has_matrix_unit();

}  // namespace pith
