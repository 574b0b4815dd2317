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

inline int row_length(const CacheLayout & layout, const RowsOf & of) {
    return of.keys ? layout.lanes(of.layer).head_dim : layout.lanes(of.layer).head_dim_v;
}
inline ggml_type row_type(const CacheLayout & layout, const RowsOf & of) {
    return of.keys ? layout.type_k : layout.type_v;
}
inline size_t row_bytes(const CacheLayout & layout, const RowsOf & of) {
    return of.keys ? layout.rows(of.layer).bytes_k() : layout.rows(of.layer).bytes_v();
}
// Whether rows of both are the same bytes.
bool same_rows(const CacheLayout & a, const CacheLayout & b, bool keys);

// rows [n] → f32 [n][d] as they lie there, and as they were made; n is the size of what is written / d.
void rows_as_they_lie(const CacheLayout & layout, const RowsOf & of, const uint8_t * rows, std::span<float> out);
void rows_as_made(const CacheLayout & layout, const RowsOf & of, const uint8_t * rows, std::span<float> made);
// And back, without the rounding, and with it. made: overwritten.
void turn_over(const CacheLayout & layout, const RowsOf & of, std::span<float> made);
// The rounding alone: as many rows as there are, of d each.
void round_rows(ggml_type type, std::span<const float> rows, int64_t d, uint8_t * out);
void rows_to_lane(const CacheLayout & layout, const RowsOf & of, std::span<float> made, uint8_t * rows);
// n rows of one layout as another has them. scratch: [n · d] or more.
void convert_rows(const CacheLayout & from, const CacheLayout & to, const RowsOf & of, int64_t n, const uint8_t * rows,
                  uint8_t * out, std::span<float> scratch);

}  // namespace pith
