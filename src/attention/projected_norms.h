// projected_norms.h - Σ over the columns of W of |v·W| or (v·W)², without ever holding v·W. Stage: attention → evidence.
//
// A custom operation of ggml's CPU back end: entries are divided among its threads, and a thread keeps a block of four entries
// by 32 columns in registers.   Arithmetic: f32.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ggml.h"

namespace pith {

enum class ColumnNorm { kMagnitudes, kSquares };

// W [dv][n_columns] in panels of 32 columns, padded with zeros: what the operation reads.
class PackedColumns {
public:
    // at(c, column) gives an element of W.
    template <class At>
    PackedColumns(int dv, int n_columns, At at) : dv_(dv), n_panels_((n_columns + kColumns - 1) / kColumns) {
        data_.assign(static_cast<size_t>(n_panels_) * static_cast<size_t>(dv) * kColumns, 0.0F);
        for (int column = 0; column < n_columns; ++column) {
            float * panel = data_.data() + static_cast<size_t>(column / kColumns) * static_cast<size_t>(dv) * kColumns;
            for (int c = 0; c < dv; ++c) {
                panel[static_cast<size_t>(c) * kColumns + static_cast<size_t>(column % kColumns)] = at(c, column);
            }
        }
    }

    static constexpr int kColumns = 32;
    int dv() const { return dv_; }
    int n_panels() const { return n_panels_; }
    const float * data() const { return data_.data(); }

private:
    int dv_;
    int n_panels_;
    std::vector<float> data_;
};

// values f32 [dv, n]  →  [n]. `columns` must live until the graph has run.
ggml_tensor * build_projected_sums(ggml_context * ctx, ggml_tensor * values, const PackedColumns & columns, ColumnNorm norm);

}  // namespace pith
