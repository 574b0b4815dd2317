// made_rows.h - rows of a layer's lanes as a cache of one layout holds them, and as the model made them: what lies between is
// rounding, and before it, of quantised types, a rotation (attention/lane_rotation.h). Stage: cache.
//
// On the host, for rows that come from a file or go to one.   Threads: const-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/ragged_cache.h"

namespace pith {

// Of which lane they are.
struct RowsOf {
    int layer = 0;
    int kv_head = 0;
    bool keys = true;  // or values
};

inline size_t row_bytes(const CacheLayout & layout, const RowsOf & of) {
    return of.keys ? layout.rows(of.layer).bytes_k() : layout.rows(of.layer).bytes_v();
}

// As many rows as there are, of d each, rounded to a type.
void round_rows(ggml_type type, std::span<const float> rows, int64_t d, uint8_t * out);
// n rows of one layout as another has them. Memory: a few of them in f32, where the layouts differ.
void convert_rows(const CacheLayout & from, const CacheLayout & to, const RowsOf & of, int64_t n, const uint8_t * rows,
                  uint8_t * out);

}  // namespace pith
