// saved_cold.cpp - two sections, written in pieces and checked without being held.
#include "engine/rest/saved_cold.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "cache/kv_type.h"
#include "core/byte_stream.h"
#include "engine/rest/session_settings.h"

namespace pith {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 60U;  // of rows: what is added to so many fits, too

bool ascends(std::span<const int32_t> positions, int64_t n_tokens) {
    const bool in_order = std::ranges::adjacent_find(positions, std::greater_equal<>()) == positions.end();
    return in_order && (positions.empty() || (positions.front() >= 0 && positions.back() < n_tokens));
}

// The bytes of rows: of one file, or of several, one behind the other.
class RowFiles {
public:
    Status add(const CacheFileView & file) {
        PITH_ASSIGN_OR_RETURN(const auto bytes, file.section("cold-rows"));
        pieces_.push_back({&file, bytes});
        parts_.push_back({file.mapped(), file.entry("cold-rows").offset, bytes.size()});
        return {};
    }
    size_t n_files() const { return pieces_.size(); }
    uint64_t size_of(size_t file) const { return pieces_[file].bytes.size(); }
    const std::vector<ColdFile::Part> & parts() const { return parts_; }
    // REQUIRES: inside one of them.
    std::span<const uint8_t> bytes(size_t file, uint64_t at, uint64_t size) const {
        return pieces_[file].bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(size));
    }
    void let_go(size_t file, std::span<const uint8_t> bytes) const { pieces_[file].file->let_go(bytes); }

private:
    struct Piece {
        const CacheFileView * file;
        std::span<const uint8_t> bytes;
    };
    std::vector<Piece> pieces_;
    std::vector<ColdFile::Part> parts_;
};

// Of a lane, those of its segments that lie in one file, one behind the other from `at` on.
struct LaneInFile {
    std::span<const ColdStore::Segment> segments;
    uint64_t at = 0;
    uint64_t size = 0;
};

std::vector<int32_t> lengths_of(const ColdStore::Lane & lane) {
    std::vector<int32_t> lengths;
    for (const ColdStore::Segment & segment : lane.segments) { lengths.push_back(segment.n); }
    return lengths;
}

// Where each segment lies: file by file, in each of them lane by lane. of_entries: [lane], bytes. False: that is not what the
// files say of themselves, or not all that they have.
bool place_segments(const ColdParts & of_files, const RowFiles & rows, std::span<const size_t> of_entries,
                    std::vector<ColdStore::Lane> & lanes, std::vector<std::vector<LaneInFile>> & of_lanes) {
    if (of_files.lanes.size() != lanes.size() || of_files.n_files() != rows.n_files()) { return false; }
    for (size_t i = 0; i < lanes.size(); ++i) {
        if (lengths_of(lanes[i]) != of_files.lanes[i].lengths) { return false; }
    }
    std::vector<size_t> n_placed(lanes.size());
    uint64_t begin = 0;
    for (size_t f = 0; f < rows.n_files(); ++f) {
        uint64_t at = 0;
        for (size_t i = 0; i < lanes.size(); ++i) {
            const auto n = static_cast<size_t>(of_files.lanes[i].n_segments[f]);
            const auto here = std::span(lanes[i].segments).subspan(n_placed[i], n);
            LaneInFile part{here, at};
            for (ColdStore::Segment & segment : here) {
                segment.at = begin + at;
                at += static_cast<uint64_t>(segment.n) * of_entries[i];
            }
            part.size = at - part.at;
            of_lanes[i].push_back(part);
            n_placed[i] += n;
        }
        if (at != rows.size_of(f)) { return false; }
        begin += at;
    }
    return true;
}

// Of one lane: each position is in one place alone, the lane or one segment, or came back.
bool fits_lane(std::span<const LaneInFile> parts, const RowFiles & rows, std::span<const int32_t> returned, size_t of_entry,
               std::span<const int32_t> held, int64_t n_tokens) {
    std::vector<int32_t> all;
    for (size_t file = 0; file < parts.size(); ++file) {
        auto bytes = rows.bytes(file, parts[file].at, parts[file].size);
        for (const ColdStore::Segment & segment : parts[file].segments) {
            const size_t first = all.size();
            all.resize(first + static_cast<size_t>(segment.n));
            std::memcpy(all.data() + first, bytes.data(), static_cast<size_t>(segment.n) * sizeof(int32_t));
            if (!ascends(std::span(all).subspan(first), n_tokens)) { return false; }
            bytes = bytes.subspan(static_cast<size_t>(segment.n) * of_entry);
        }
    }
    std::ranges::sort(all);
    if (std::ranges::adjacent_find(all) != all.end() || !ascends(returned, n_tokens)) { return false; }
    std::vector<int32_t> in_both;
    std::ranges::set_intersection(all, held, std::back_inserter(in_both));
    return std::ranges::equal(in_both, returned);
}

std::vector<int> layers_of_lanes(const CacheLayout & layout) {
    std::vector<int> layers;
    for (int l = 0; l < layout.n_layers(); ++l) {
        layers.insert(layers.end(), static_cast<size_t>(layout.lanes(l).n_kv_heads), l);
    }
    return layers;
}

// Of every lane the segments behind the first so many.
Status write_rows(CacheFileWriter & file, const ColdStore & store, const CacheLayout & layout, const ColdParts & before) {
    const std::vector<int> layers = layers_of_lanes(layout);
    PITH_RETURN_IF_ERROR(file.begin("cold-rows"));
    for (size_t i = 0; i < store.lanes().size(); ++i) {
        const size_t n_before = i < before.lanes.size() ? before.lanes[i].lengths.size() : 0;
        for (const ColdStore::Segment & segment : std::span(store.lanes()[i].segments).subspan(n_before)) {
            PITH_RETURN_IF_ERROR(
                store.copy_segment(segment, layers[i], [&](std::span<const uint8_t> bytes) { return file.write(bytes); }));
        }
    }
    return {};
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

bool ColdParts::begin(const ColdStore & store) const {
    for (size_t i = 0; i < lanes.size(); ++i) {
        if (lanes[i].lengths.empty()) { continue; }
        if (i >= store.lanes().size()) { return false; }
        const std::vector<int32_t> there = lengths_of(store.lanes()[i]);
        if (!std::ranges::equal(lanes[i].lengths, std::span(there).first(std::min(there.size(), lanes[i].lengths.size())))) {
            return false;
        }
    }
    return true;
}

Status write_cold(CacheFileWriter & file, const ColdStore & store, const SessionOptions & options, int64_t most_back,
                  const CacheLayout & layout, bool rows) {
    std::vector<ColdStore::Lane> lanes = store.lanes();
    lanes.resize(layers_of_lanes(layout).size());
    ByteWriter index;
    index.text(to_string(*options.cold));
    index.flag(is_rotated(*options.cold, options));
    index.number(options.cold_bytes);
    index.number(uint64_t{lanes.size()});
    for (const ColdStore::Lane & lane : lanes) {
        index.array(lengths_of(lane));
        index.array(lane.returned);
    }
    if (options.look_back) { index.number(most_back); }
    PITH_RETURN_IF_ERROR(file.add("cold", index.bytes()));
    return rows ? write_rows(file, store, layout, {}) : Status();
}

Status write_cold_part(const std::string & path, std::span<const int32_t> tokens, const ColdStore & store,
                       const CacheLayout & layout, ColdParts before) {
    PITH_ASSIGN_OR_RETURN(CacheFileWriter file, CacheFileWriter::create(path));
    PITH_RETURN_IF_ERROR(file.add("tokens", raw_bytes(tokens)));
    const size_t n_files = before.n_files();
    ByteWriter parts;
    parts.number(before.hash_before);
    before.lanes.resize(layers_of_lanes(layout).size());
    parts.number(uint64_t{before.lanes.size()});
    for (size_t i = 0; i < before.lanes.size(); ++i) {
        ColdParts::Lane lane = before.lanes[i];
        const std::vector<int32_t> lengths = i < store.lanes().size() ? lengths_of(store.lanes()[i]) : std::vector<int32_t>();
        lane.n_segments.resize(n_files);
        lane.n_segments.push_back(static_cast<int32_t>(lengths.size() - lane.lengths.size()));
        parts.array(lengths);
        parts.array(lane.n_segments);
    }
    PITH_RETURN_IF_ERROR(file.add("cold-parts", parts.bytes()));
    PITH_RETURN_IF_ERROR(write_rows(file, store, layout, before));
    return file.publish();
}

Result<ColdParts> read_cold_parts(const CacheFileView & file, std::optional<std::span<const int32_t>> tokens) {
    PITH_ASSIGN_OR_RETURN(const auto of_tokens, file.section("tokens"));
    if (tokens && !std::ranges::equal(of_tokens, raw_bytes(*tokens))) {
        return {ErrorCode::kBadFile, "cache file '" + file.path() + "' holds what was evicted of other tokens"};
    }
    PITH_RETURN_IF_ERROR(file.section("cold-rows").status());
    PITH_ASSIGN_OR_RETURN(const auto bytes, file.section("cold-parts"));
    ByteReader from(bytes);
    ColdParts parts;
    parts.hash_before = from.number<uint64_t>();
    parts.lanes.resize(from.count(2 * sizeof(uint64_t)));
    bool sensible = true;
    for (ColdParts::Lane & lane : parts.lanes) {
        lane.lengths = from.array<int32_t>();
        lane.n_segments = from.array<int32_t>();
        uint64_t n = 0;
        for (const int32_t of_file : lane.n_segments) {
            sensible = sensible && of_file >= 0;
            n += static_cast<uint64_t>(of_file);
        }
        sensible = sensible && n == lane.lengths.size() && lane.n_segments.size() == parts.n_files();
    }
    if (!sensible || parts.n_files() == 0 || !from.done()) { return file.damaged("what it says of its parts makes no sense"); }
    return parts;
}

Result<std::optional<SavedCold>> read_cold(const CacheFileView & file, std::span<const CacheFile> parts,
                                           const SessionOptions & options, const CacheLayout & layout,
                                           std::span<const std::vector<int32_t>> positions, int64_t n_tokens) {
    if (!file.has("cold")) { return std::optional<SavedCold>(); }
    const Status bad = file.damaged("its evicted entries make no sense");
    PITH_ASSIGN_OR_RETURN(const auto index, file.section("cold"));
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
    const bool turned = told ? is_rotated(cold.type, options) : cold.is_rotated && is_quantised(cold.type);
    if (cold.lanes.empty() || cold.lanes.size() != positions.size() || cold.is_rotated != turned) { return bad; }
    CacheLayout of_rows = layout;
    of_rows.type_k = of_rows.type_v = to_ggml(cold.type);
    if (!RaggedCache::check_types(of_rows).ok()) { return bad; }
    const std::vector<int> layers = layers_of_lanes(layout);
    std::vector<size_t> of_entries;  // [lane]: bytes
    for (size_t i = 0; i < layers.size(); ++i) {
        ColdStore::Lane & lane = cold.lanes[i];
        const std::vector<int32_t> lengths = from.array<int32_t>();
        lane.returned = from.array<int32_t>();
        of_entries.push_back(sizeof(int32_t) + of_rows.rows(layers[i]).bytes());
        if (!from.ok() || (!layout.governs(layers[i]) && !lengths.empty())) { return bad; }
        for (const int32_t n : lengths) {
            if (n <= 0 || n > n_tokens) { return bad; }
            lane.segments.push_back({.n = n, .is_saved = true});
            cold.n_bytes += static_cast<uint64_t>(n) * of_entries[i];
            if (cold.n_bytes > kMostBytes) { return bad; }
        }
    }
    if (!from.done()) {
        cold.most_back = from.number<int64_t>();
        if (*cold.most_back < 0) { return bad; }
    }
    if (!from.done()) { return bad; }

    RowFiles rows;
    ColdParts of_files;
    if (file.has("cold-rows")) {
        PITH_RETURN_IF_ERROR(rows.add(file));
        for (const ColdStore::Lane & lane : cold.lanes) {
            of_files.lanes.push_back({lengths_of(lane), {static_cast<int32_t>(lane.segments.size())}});
        }
    } else if (parts.empty()) {
        return std::optional<SavedCold>(std::move(cold));
    } else {
        for (const CacheFile & part : parts) { PITH_RETURN_IF_ERROR(rows.add(part.view())); }
        PITH_ASSIGN_OR_RETURN(of_files, read_cold_parts(parts.back().view()));
    }
    std::vector<std::vector<LaneInFile>> of_lanes(layers.size());
    if (!place_segments(of_files, rows, of_entries, cold.lanes, of_lanes)) { return bad; }
    for (size_t i = 0; i < layers.size(); ++i) {
        if (!fits_lane(of_lanes[i], rows, cold.lanes[i].returned, of_entries[i], positions[i], n_tokens)) { return bad; }
        for (size_t f = 0; f < rows.n_files(); ++f) {  // around each position more becomes resident than is read
            rows.let_go(f, rows.bytes(f, of_lanes[i][f].at, of_lanes[i][f].size));
        }
    }
    cold.rows = rows.parts();
    return std::optional<SavedCold>(std::move(cold));
}

}  // namespace pith
