// cpu_entries.h - what keys and values say by themselves, by the CPU's kernels: norms, cosines, products with a matrix reduced
// to a number per entry, second moments. Stage: attention → evidence. Raw pointers only: no ggml.
//
// Rows are read as they are stored. Arithmetic: f32; sums over many rows in f64.   Threads: const-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/cpu/cpu_attention.h"

namespace pith {

// Rows of `dim` elements, `stride` bytes apart. REQUIRES: can_attend() of their format and size.
struct EntryRows {
    KvFormat format = KvFormat::kF32;
    const void * rows = nullptr;
    size_t stride = 0;
    int n = 0;
    int dim = 0;
};

enum class EntryNorm { kL1, kL2 };

// out [n] = |row|₁ or |row|₂.
void norms_of_entries(const EntryRows & entries, EntryNorm norm, float * out);
// sum [dim] += Σ row / |row|₂; rows of zeros add nothing.
void add_unit_entries(const EntryRows & entries, double * sum);
// out [n] = row · direction / |row|₂; 0 for a row of zeros.
void project_unit_entries(const EntryRows & entries, const float * direction, float * out);

// A matrix [dim][n_columns] in panels of 32 columns, padded with zeros; then, where there is one, a row that products start
// from.
class PackedColumns {
public:
    static constexpr int kColumns = 32;

    // at(c, column) gives an element.
    template <class At>
    PackedColumns(int dim, int n_columns, At at, const float * start = nullptr)
        : dim_(dim), n_panels_((n_columns + kColumns - 1) / kColumns) {
        const auto width = static_cast<size_t>(n_panels_) * kColumns;
        const auto panel = static_cast<size_t>(dim) * kColumns;
        data_.assign(width * static_cast<size_t>(dim + 1), 0.0F);
        for (int column = 0; column < n_columns; ++column) {
            float * to = data_.data() + static_cast<size_t>(column / kColumns) * panel + column % kColumns;
            for (int c = 0; c < dim; ++c) { to[c * kColumns] = at(c, column); }
            if (start != nullptr) { data_[width * static_cast<size_t>(dim) + static_cast<size_t>(column)] = start[column]; }
        }
    }

    int dim() const { return dim_; }
    int n_panels() const { return n_panels_; }
    const float * panel(int i) const { return data_.data() + static_cast<size_t>(i) * static_cast<size_t>(dim_) * kColumns; }
    const float * start(int i) const { return panel(n_panels_) + static_cast<size_t>(i) * kColumns; }

private:
    int dim_;
    int n_panels_;
    std::vector<float> data_;
};

enum class Reduction {
    kMagnitudes,  // Σ |y|
    kRoot,        // sqrt(Σ y²)
    kForm,        // Σ y · row: as many columns as the row has elements
};

// out [n] = reduction of y = start + row · columns, which is never held. REQUIRES: dim <= 8192.   Cost: n · dim · columns.
void reduce_products(const EntryRows & entries, const PackedColumns & columns, Reduction reduction, float * out);

// rows [n][stride]  →  mean [d], squares [d][d] = Σ (row - mean)(row - mean)ᵀ. scratch: moment_scratch_floats(d).
void moments_of(const float * rows, int64_t stride, int64_t n, int d, float * scratch, float * mean, float * squares);
inline constexpr int kMomentRows = 128;  // centred at a time
inline int64_t moment_scratch_floats(int d) {
    return int64_t{kMomentRows} * ((d + PackedColumns::kColumns - 1) / PackedColumns::kColumns * PackedColumns::kColumns);
}

}  // namespace pith
