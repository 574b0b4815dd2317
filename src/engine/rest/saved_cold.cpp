// saved_cold.cpp - two sections, written in pieces and checked without being held.
#include "engine/rest/saved_cold.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "cache/kv_type.h"
#include "core/byte_stream.h"

namespace pith {
namespace {

bool is_rotated(const SessionOptions & options, KvType type) {
    return options.rotate_kv && is_quantised(type);
}

bool ascends(std::span<const int32_t> positions, int64_t n_tokens) {
    const bool in_order = std::ranges::adjacent_find(positions, std::greater_equal<>()) == positions.end();
    return in_order && (positions.empty() || (positions.front() >= 0 && positions.back() < n_tokens));
}

// Of one lane, whose segments begin at `bytes`: each position is in one place alone, the lane or one segment, or came back.
bool fits_lane(const ColdStore::Lane & lane, std::span<const uint8_t> bytes, size_t of_row, std::span<const int32_t> held,
               int64_t n_tokens) {
    std::vector<int32_t> all;
    for (const ColdStore::Segment & segment : lane.segments) {
        const size_t first = all.size();
        all.resize(first + static_cast<size_t>(segment.n));
        std::memcpy(all.data() + first, bytes.data(), static_cast<size_t>(segment.n) * sizeof(int32_t));
        if (!ascends(std::span(all).subspan(first), n_tokens)) { return false; }
        bytes = bytes.subspan(static_cast<size_t>(segment.n) * (sizeof(int32_t) + of_row));
    }
    std::ranges::sort(all);
    if (std::ranges::adjacent_find(all) != all.end() || !ascends(lane.returned, n_tokens)) { return false; }
    std::vector<int32_t> in_both;
    std::ranges::set_intersection(all, held, std::back_inserter(in_both));
    return in_both == lane.returned;
}

}  // namespace

int64_t SavedCold::n_entries() const {
    int64_t n = 0;
    for (const ColdStore::Lane & lane : lanes) {
        for (const ColdStore::Segment & segment : lane.segments) { n += segment.n; }
        n -= std::ssize(lane.returned);
    }
    return n;
}

Status write_cold(CacheFileWriter & file, const ColdStore & store, const SessionOptions & options, int64_t most_back,
                  const std::vector<int> & layers_of_lanes) {
    std::vector<ColdStore::Lane> lanes = store.lanes();
    lanes.resize(layers_of_lanes.size());
    ByteWriter index;
    index.text(to_string(*options.cold));
    index.flag(is_rotated(options, *options.cold));
    index.number(options.cold_bytes);
    index.number(uint64_t{lanes.size()});
    for (const ColdStore::Lane & lane : lanes) {
        std::vector<int32_t> lengths;
        for (const ColdStore::Segment & segment : lane.segments) { lengths.push_back(segment.n); }
        index.array(lengths);
        index.array(lane.returned);
    }
    if (options.look_back) { index.number(most_back); }
    PITH_RETURN_IF_ERROR(file.add("cold", index.bytes()));
    PITH_RETURN_IF_ERROR(file.begin("cold-rows"));
    for (size_t i = 0; i < lanes.size(); ++i) {
        for (const ColdStore::Segment & segment : lanes[i].segments) {
            PITH_RETURN_IF_ERROR(store.copy_segment(segment, layers_of_lanes[i],
                                                    [&](std::span<const uint8_t> bytes) { return file.write(bytes); }));
        }
    }
    return {};
}

Result<std::optional<SavedCold>> read_cold(const CacheFileView & file, const SessionOptions & options,
                                           const CacheLayout & layout, std::span<const std::vector<int32_t>> positions,
                                           int64_t n_tokens) {
    if (!file.has("cold")) { return std::optional<SavedCold>(); }
    const Status bad = file.damaged("its evicted entries make no sense");
    PITH_ASSIGN_OR_RETURN(const auto index, file.section("cold"));
    PITH_ASSIGN_OR_RETURN(auto rows, file.section("cold-rows"));
    ByteReader from(index);
    SavedCold cold;
    const auto type = parse_kv_type(from.text());
    if (!type.ok()) { return bad; }
    cold.type = *type;
    cold.is_rotated = from.flag();
    cold.most_bytes = from.number<uint64_t>();
    cold.lanes.resize(from.count(2 * sizeof(uint64_t)));
    // Settings say whether rows are rotated only where the cache has such.
    const bool told = is_quantised(options.type_k) || is_quantised(options.type_v);
    const bool turned = told ? is_rotated(options, cold.type) : cold.is_rotated && is_quantised(cold.type);
    if (cold.lanes.size() != positions.size() || cold.is_rotated != turned) { return bad; }
    CacheLayout of_rows = layout;
    of_rows.type_k = of_rows.type_v = to_ggml(cold.type);
    if (!RaggedCache::check_types(of_rows).ok()) { return bad; }
    cold.begin = file.offset_of("cold-rows");
    cold.size = rows.size();
    uint64_t at = 0;
    size_t i = 0;
    for (int layer = 0; layer < layout.n_layers(); ++layer) {
        const size_t of_row = of_rows.rows(layer).bytes();
        for (int h = 0; h < layout.lanes(layer).n_kv_heads; ++h, ++i) {
            ColdStore::Lane & lane = cold.lanes[i];
            const std::vector<int32_t> lengths = from.array<int32_t>();
            lane.returned = from.array<int32_t>();
            if (!from.ok() || (!layout.governs(layer) && !lengths.empty())) { return bad; }
            const uint64_t first = at;
            for (const int32_t n : lengths) {
                const uint64_t size = static_cast<uint64_t>(std::max(n, 0)) * (sizeof(int32_t) + of_row);
                if (n <= 0 || n > n_tokens || size > cold.size - at) { return bad; }
                lane.segments.push_back({at, n, /*is_saved=*/true});
                at += size;
            }
            const auto of_lane = rows.subspan(static_cast<size_t>(first), static_cast<size_t>(at - first));
            if (!fits_lane(lane, of_lane, of_row, positions[i], n_tokens)) { return bad; }
            file.let_go(of_lane);  // around each position more becomes resident than is read
        }
    }
    if (!from.done()) {
        cold.most_back = from.number<int64_t>();
        if (*cold.most_back < 0) { return bad; }
    }
    if (!from.done() || at != cold.size) { return bad; }
    return std::optional<SavedCold>(std::move(cold));
}

}  // namespace pith
