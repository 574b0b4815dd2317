// made_rows.cpp - ggml's rounding, and the rotation around it.
#include "cache/made_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/hadamard.h"
#include "core/half.h"
#include "ggml.h"

namespace pith {
namespace {

int row_length(const CacheLayout & layout, const RowsOf & of) {
    return of.keys ? layout.lanes(of.layer).head_dim : layout.lanes(of.layer).head_dim_v;
}

ggml_type row_type(const CacheLayout & layout, bool keys) {
    return keys ? layout.type_k : layout.type_v;
}

bool rotates(const CacheLayout & layout, bool keys) {
    return keys ? layout.rotates_k() : layout.rotates_v();
}

// The lane's constant, times `sign`, to every row.
void add_offset(const CacheLayout & layout, const RowsOf & of, float sign, std::span<float> rows) {
    const std::span<const float> offset = of.keys ? layout.key_offset(of.layer, of.kv_head) : std::span<const float>();
    for (size_t first = 0; !offset.empty() && first < rows.size(); first += offset.size()) {
        for (size_t c = 0; c < offset.size(); ++c) { rows[first + c] += sign * offset[c]; }
    }
}

// Whether rows of both are the same bytes.
bool same_rows(const CacheLayout & a, const CacheLayout & b, bool keys) {
    return row_type(a, keys) == row_type(b, keys) && rotates(a, keys) == rotates(b, keys);
}

// As many as `made` has room for.
void rows_as_made(const CacheLayout & layout, const RowsOf & of, const uint8_t * rows, std::span<float> made) {
    if (const auto to_float = ggml_get_type_traits(row_type(layout, of.keys))->to_float; to_float != nullptr) {
        to_float(rows, made.data(), static_cast<int64_t>(made.size()));
    } else {
        std::memcpy(made.data(), rows, made.size_bytes());
    }
    if (!rotates(layout, of.keys)) { return; }
    rotate_hadamard(made, hadamard_block(row_length(layout, of)));
    add_offset(layout, of, 1.0F, made);
}

// And back; made: overwritten.
void rows_to_lane(const CacheLayout & layout, const RowsOf & of, std::span<float> made, uint8_t * rows) {
    if (rotates(layout, of.keys)) {
        add_offset(layout, of, -1.0F, made);
        rotate_hadamard(made, hadamard_block(row_length(layout, of)));
    }
    round_rows(row_type(layout, of.keys), made, row_length(layout, of), rows);
}

}  // namespace

void round_rows(ggml_type type, std::span<const float> rows, int64_t d, uint8_t * out) {
    if (type == GGML_TYPE_F16) { return round_to_half(rows, reinterpret_cast<uint16_t *>(out)); }
    ggml_quantize_chunk(type, rows.data(), out, 0, static_cast<int64_t>(rows.size()) / d, d, nullptr);
}

void convert_rows(const CacheLayout & from, const CacheLayout & to, const RowsOf & of, int64_t n, const uint8_t * rows,
                  uint8_t * out) {
    if (same_rows(from, to, of.keys)) {
        std::copy_n(rows, static_cast<size_t>(n) * row_bytes(from, of), out);
        return;
    }
    constexpr int64_t kTile = 64;  // rows that stay in a near cache from step to step
    const auto d = static_cast<size_t>(row_length(from, of));
    std::vector<float> tile(static_cast<size_t>(std::min(kTile, n)) * d);
    for (int64_t first = 0; first < n; first += kTile) {
        const auto made = std::span(tile).first(static_cast<size_t>(std::min(kTile, n - first)) * d);
        rows_as_made(from, of, rows + static_cast<size_t>(first) * row_bytes(from, of), made);
        rows_to_lane(to, of, made, out + static_cast<size_t>(first) * row_bytes(to, of));
    }
}

}  // namespace pith
