// quantised_product.h - the CPU's product of quantised weights with rows of activations in 8 bits. Stage: matmul. Raw pointers
// only: no ggml.
//
//   out(j, i) = Σ_b scale(j, b) · ( d(i, b) · Σ_g s(i, b, g) · Σ_{c in g} w(i, c) · q(j, c)  -  dmin(i, b) · Σ_g m(i, b, g) ·
//   Σ_{c in g} q(j, c) )
// with blocks b of 256 and groups g of 32 (Q6_K: 16) as the GGUF types define them; Q8_0, Q4_0, Q4_1, IQ4_NL and MXFP4 have a
// d, and Q4_1 a minimum, for each 32, and rows then a scale. Weights stay as the file has them; a panel of columns is unpacked
// to bytes in the nearest cache, all rows meet it, and the next one takes its place. Both inner sums are whole numbers and
// exact; floats come in once a block (or a group of 32), in their order: a row of x has the same bits alone, in any batch, on
// any number of threads, and on every unit of bytes (AVX2, AVX-512 VNNI, AMX). Source: ggml's block_q4_K, block_q5_K,
// block_q6_K, block_iq4_xs (the format of the file); Intel 64 and IA-32 Architectures Software Developer's Manual (VPDPBUSD,
// TDPBSUD). Cost: n · n_out · n_in multiply-adds of bytes; no copy of the weights.   Threads: each a part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "matmul/quantised_rows.h"

namespace pith {

enum class QuantType { kQ4_K, kQ5_K, kQ6_K, kIQ4_XS, kQ8_0, kQ4_0, kQ4_1, kIQ4_NL, kMXFP4 };
// Whether groups of 32 weights have a scale each, and rows are rounded in groups.
constexpr bool has_groups(QuantType type) {
    return type >= QuantType::kQ8_0;
}
// Whether four bits of a weight are the number of a value.
constexpr bool has_value_table(QuantType type) {
    return type == QuantType::kIQ4_XS || type == QuantType::kIQ4_NL || type == QuantType::kMXFP4;
}
// Whether the matrix unit has a way for panels of this type.
constexpr bool has_matrix_product(QuantType type) {
    return !has_groups(type) && !has_value_table(type);
}

struct QuantisedProduct {
    QuantType type = QuantType::kQ4_K;
    const uint8_t * weights = nullptr;         // [n_out][weight_stride]
    size_t weight_stride = 0;                  // bytes from row to row
    const QuantisedBlock * x = nullptr;        // [n_in / 256][block_stride], of which padded_rows(n) may be read
    const QuantisedGroups * groups = nullptr;  // instead, where has_groups(type): [⌈n_in / 256⌉][block_stride]
    size_t block_stride = 0;                   // rows from a block to the next one
    const int32_t * out_rows = nullptr;        // [n], which row of out each one is; nullptr: in their order
    float * out = nullptr;                     // [n][out_stride], overwritten
    size_t out_stride = 0;                     // floats from row to row
    size_t n_in = 0;                           // a multiple of 256; where has_groups(type), of 32
    size_t n_out = 0;
    size_t n = 0;

    float * out_row(size_t j) const { return out + (out_rows == nullptr ? j : static_cast<size_t>(out_rows[j])) * out_stride; }
};

// The part of thread ith of n_threads.
void multiply_part(const QuantisedProduct & product, int ith, int n_threads);
inline constexpr size_t kColumnsDealt = 32;  // that one thread gets at least: a panel's, for any instruction set
// Columns [first, end), by the calling thread alone.
void multiply_columns(const QuantisedProduct & product, size_t first, size_t end);

// Whether this processor has byte products that make this faster than ggml's for such weights; experts': than ggml's of
// experts, which it has on no matrix unit.
bool quantised_product_pays(QuantType type, bool experts = false);

// Which way products go: tests and benchmarks compare them. kBest: the fastest for so many rows: columns as they lie, panels by
// vectors, or panels by the matrix unit.   kMatrix REQUIRES: has_matrix_unit().
enum class ProductUnit { kBest, kVectors, kMatrix };
void use_product_unit(ProductUnit unit);
bool has_matrix_unit();

}  // namespace pith
