// made_rows.cpp - ggml's rounding, and the rotation around it.
#include "cache/made_rows.h"

#include <algorithm>
#include <cstring>

#include "core/hadamard.h"
#include "core/half.h"
#include "ggml.h"

namespace pith {
namespace {

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

}  // namespace

bool same_rows(const CacheLayout & a, const CacheLayout & b, bool keys) {
    const RowsOf of{0, 0, keys};
    return row_type(a, of) == row_type(b, of) && rotates(a, keys) == rotates(b, keys);
}

void rows_as_they_lie(const CacheLayout & layout, const RowsOf & of, const uint8_t * rows, std::span<float> out) {
    if (const auto to_float = ggml_get_type_traits(row_type(layout, of))->to_float; to_float != nullptr) {
        to_float(rows, out.data(), static_cast<int64_t>(out.size()));
    } else {
        std::memcpy(out.data(), rows, out.size_bytes());
    }
}

void rows_as_made(const CacheLayout & layout, const RowsOf & of, const uint8_t * rows, std::span<float> made) {
    rows_as_they_lie(layout, of, rows, made);
    if (!rotates(layout, of.keys)) { return; }
    rotate_hadamard(made, hadamard_block(row_length(layout, of)));
    add_offset(layout, of, 1.0F, made);
}

void turn_over(const CacheLayout & layout, const RowsOf & of, std::span<float> made) {
    if (!rotates(layout, of.keys)) { return; }
    add_offset(layout, of, -1.0F, made);
    rotate_hadamard(made, hadamard_block(row_length(layout, of)));
}

void round_rows(ggml_type type, std::span<const float> rows, int64_t d, uint8_t * out) {
    if (type == GGML_TYPE_F16) { return round_to_half(rows, reinterpret_cast<uint16_t *>(out)); }
    ggml_quantize_chunk(type, rows.data(), out, 0, static_cast<int64_t>(rows.size()) / d, d, nullptr);
}

void rows_to_lane(const CacheLayout & layout, const RowsOf & of, std::span<float> made, uint8_t * rows) {
    turn_over(layout, of, made);
    round_rows(row_type(layout, of), made, row_length(layout, of), rows);
}

void convert_rows(const CacheLayout & from, const CacheLayout & to, const RowsOf & of, int64_t n, const uint8_t * rows,
                  uint8_t * out, std::span<float> scratch) {
    if (same_rows(from, to, of.keys)) {
        std::copy_n(rows, static_cast<size_t>(n) * row_bytes(from, of), out);
        return;
    }
    constexpr int64_t kTile = 64;  // rows that stay in a near cache from step to step
    for (int64_t first = 0; first < n; first += kTile) {
        const int64_t n_now = std::min(kTile, n - first);
        const auto made = scratch.first(static_cast<size_t>(n_now) * static_cast<size_t>(row_length(from, of)));
        rows_as_made(from, of, rows + static_cast<size_t>(first) * row_bytes(from, of), made);
        rows_to_lane(to, of, made, out + static_cast<size_t>(first) * row_bytes(to, of));
    }
}

}  // namespace pith
