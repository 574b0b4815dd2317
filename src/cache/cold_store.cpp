// cold_store.cpp - segments, written once and read in runs.
#include "cache/cold_store.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace pith {
namespace {

constexpr int32_t kRowsReadThrough = 16;  // that nobody wants, between two that somebody does

// Indices below n that `kept` leaves out, both ascending.
std::vector<int32_t> left_out(std::span<const int32_t> kept, int n) {
    std::vector<int32_t> gone;
    auto next = kept.begin();
    for (int32_t i = 0; i < n; ++i) {
        if (next != kept.end() && *next == i) {
            ++next;
        } else {
            gone.push_back(i);
        }
    }
    return gone;
}

// Calls visit(first, n) for every run of neighbours among ascending indices.
template <class Visit>
void for_each_neighbours(std::span<const int32_t> indices, const Visit & visit) {
    for (size_t i = 0; i < indices.size();) {
        size_t n = 1;
        while (i + n < indices.size() && indices[i + n] == indices[i] + static_cast<int32_t>(n)) { ++n; }
        visit(indices[i], static_cast<int64_t>(n));
        i += n;
    }
}

bool follow_each_other(std::span<const size_t> numbers) {
    return std::ranges::adjacent_find(numbers, [](size_t a, size_t b) { return b != a + 1; }) == numbers.end();
}

// Entries that lie in runs, each of which ascends, in one. ends: of the runs.
void merge_ascending(std::vector<ColdStore::Entry> & entries, std::vector<size_t> ends) {
    const auto at = [&](size_t i) { return entries.begin() + static_cast<std::ptrdiff_t>(i); };
    while (ends.size() > 1) {  // neighbours in pairs
        size_t n = 0;
        size_t begin = 0;
        for (size_t i = 0; i < ends.size(); i += 2) {
            const size_t end = ends[std::min(i + 1, ends.size() - 1)];
            std::ranges::inplace_merge(at(begin), at(ends[i]), at(end), {}, &ColdStore::Entry::position);
            begin = ends[n++] = end;
        }
        ends.resize(n);
    }
}

}  // namespace

ColdStore::ColdStore(std::shared_ptr<const CacheLayout> layout, uint64_t most_bytes)
    : layout_(std::move(layout)), most_bytes_(most_bytes) {}

ColdStore::ColdStore(std::shared_ptr<const CacheLayout> layout, uint64_t most_bytes, std::shared_ptr<ColdFile> saved,
                     std::vector<Lane> lanes)
    : layout_(std::move(layout)), most_bytes_(most_bytes), saved_(std::move(saved)), n_bytes_(saved_->size_bytes()) {
    for (const Lane & lane : lanes) {
        for (const Segment & segment : lane.segments) { n_entries_ += segment.n; }
        n_entries_ -= std::ssize(lane.returned);
    }
    lanes_.own() = std::move(lanes);
}

uint64_t ColdStore::segment_bytes(const Segment & segment, int layer) const {
    return static_cast<uint64_t>(segment.n) * (sizeof(int32_t) + layout_->rows(layer).bytes());
}

uint64_t ColdStore::first_row_at(const Segment & segment, const RowsOf & of) const {
    const auto n = static_cast<uint64_t>(segment.n);
    const uint64_t keys_at = segment.at + n * sizeof(int32_t);
    return of.keys ? keys_at : keys_at + n * layout_->rows(of.layer).bytes_k();
}

Status ColdStore::read(const Segment & segment, uint64_t at, std::span<uint8_t> bytes) const {
    std::atomic_ref(read_bytes_).fetch_add(bytes.size(), std::memory_order_relaxed);
    return (segment.is_saved ? saved_ : spill_)->read(at, bytes);
}

// Of a lane's entries positions and rows, piece by piece.
Status ColdStore::write_rows(const RaggedCache & cache, int layer, int kv_head, std::span<const int32_t> indices,
                             const Segment & segment) const {
    const auto all = cache.positions(cache.lane(0, layer, kv_head));
    const LaneRows here = cache.layout().rows(layer);
    const size_t most = std::max<size_t>(1, kBufferBytes / here.bytes());
    std::vector<uint8_t> k(most * here.bytes_k());
    std::vector<uint8_t> v(most * here.bytes_v());
    std::vector<uint8_t> out(most * std::max(sizeof(int32_t), layout_->rows(layer).bytes()));
    std::vector<int32_t> positions;
    for (uint64_t first = 0; first < indices.size(); first += most) {
        const auto piece = indices.subspan(first, std::min<size_t>(most, indices.size() - first));
        positions.clear();
        for (const int32_t i : piece) { positions.push_back(all[static_cast<size_t>(i)]); }
        const std::span numbers(reinterpret_cast<const uint8_t *>(positions.data()), positions.size() * sizeof(int32_t));
        PITH_RETURN_IF_ERROR(spill_->write(segment.at + first * sizeof(int32_t), numbers));
        size_t n_read = 0;
        for_each_neighbours(piece, [&](int32_t begin, int64_t n) {
            cache.read(0, layer, kv_head, begin, n, k.data() + n_read * here.bytes_k(), v.data() + n_read * here.bytes_v());
            n_read += static_cast<size_t>(n);
        });
        for (const bool keys : {true, false}) {
            const RowsOf of{layer, kv_head, keys};
            const size_t of_row = row_bytes(*layout_, of);
            convert_rows(cache.layout(), *layout_, of, std::ssize(piece), keys ? k.data() : v.data(), out.data());
            PITH_RETURN_IF_ERROR(
                spill_->write(first_row_at(segment, of) + first * of_row, std::span(out).first(piece.size() * of_row)));
        }
    }
    return {};
}

Status ColdStore::add_dropped(const RaggedCache & cache, std::span<const LayerKeep> keeps) {
    struct Part {
        int layer = 0;
        int kv_head = 0;
        std::vector<int32_t> gone;  // entries
        Segment segment;            // from the room's beginning on
    };
    std::vector<Part> parts;
    const bool may_come_back = cache.shift() == 0;  // once keys have moved together nothing has a place among them
    std::vector<Lane> lanes = *lanes_;
    lanes.resize(static_cast<size_t>(cache.n_lanes()));
    int64_t n_entries = n_entries_;
    int64_t n_lost = n_lost_;
    uint64_t n_new_bytes = 0;
    for (const LayerKeep & one : keeps) {
        if (!cache.layout().governs(one.layer)) { continue; }
        for (int h = 0; h < cache.n_kv_heads(one.layer); ++h) {
            const int at = cache.lane(0, one.layer, h);
            Lane & lane = lanes[static_cast<size_t>(at)];
            const auto all = cache.positions(at);
            std::vector<int32_t> gone = left_out(one.keep->row(h), static_cast<int>(all.size()));
            const size_t n_all = gone.size();
            std::erase_if(gone, [&](int32_t i) {  // what is here already
                const auto found = std::ranges::lower_bound(lane.returned, all[static_cast<size_t>(i)]);
                if (found == lane.returned.end() || *found != all[static_cast<size_t>(i)]) { return false; }
                lane.returned.erase(found);
                return true;
            });
            n_entries += static_cast<int64_t>(n_all - gone.size());
            if (gone.empty()) { continue; }
            const Segment segment{.at = n_new_bytes, .n = static_cast<int32_t>(gone.size())};
            const uint64_t size = segment_bytes(segment, one.layer);
            if (!may_come_back || n_bytes_ + n_new_bytes + size > most_bytes_) {
                n_lost += segment.n;
                continue;
            }
            n_entries += segment.n;
            n_new_bytes += size;
            parts.push_back({one.layer, h, std::move(gone), segment});
        }
    }
    std::shared_ptr<const ColdFile::Room> room;
    if (!parts.empty()) {
        if (!spill_) { PITH_ASSIGN_OR_RETURN(spill_, ColdFile::make()); }
        room = spill_->take_room(n_new_bytes);
    }
    for (Part & part : parts) {
        part.segment.at += room->begin();
        PITH_RETURN_IF_ERROR(write_rows(cache, part.layer, part.kv_head, part.gone, part.segment));
        lanes[static_cast<size_t>(cache.lane(0, part.layer, part.kv_head))].segments.push_back(part.segment);
    }
    PITH_RETURN_IF_ERROR(cache.health());
    CopyOnWrite<std::vector<Lane>> then;
    then.own() = std::move(lanes);
    if (room) { rooms_.own().push_back(std::move(room)); }
    lanes_ = std::move(then);
    n_entries_ = n_entries;
    n_lost_ = n_lost;
    n_bytes_ += n_new_bytes;
    return {};
}

void ColdStore::give_back(int lane, std::span<const int32_t> positions) {
    std::vector<int32_t> & returned = lanes_.own()[static_cast<size_t>(lane)].returned;
    returned.insert(returned.end(), positions.begin(), positions.end());
    std::ranges::sort(returned);
    n_entries_ -= std::ssize(positions);
}

Status ColdStore::entries_of(int lane, std::vector<Entry> & to) const {
    to.clear();
    if (static_cast<size_t>(lane) >= lanes_->size()) { return {}; }
    const Lane & of_lane = (*lanes_)[static_cast<size_t>(lane)];
    std::vector<int32_t> positions;
    std::vector<size_t> ends;  // of the segments' entries in `to`
    for (size_t s = 0; s < of_lane.segments.size(); ++s) {
        const Segment & segment = of_lane.segments[s];
        positions.resize(static_cast<size_t>(segment.n));
        PITH_RETURN_IF_ERROR(
            read(segment, segment.at, {reinterpret_cast<uint8_t *>(positions.data()), positions.size() * sizeof(int32_t)}));
        auto back = std::ranges::lower_bound(of_lane.returned, positions.empty() ? 0 : positions.front());
        for (int32_t row = 0; row < segment.n; ++row) {
            const int32_t position = positions[static_cast<size_t>(row)];
            while (back != of_lane.returned.end() && *back < position) { ++back; }
            if (back != of_lane.returned.end() && *back == position) { continue; }
            to.push_back({position, static_cast<int32_t>(s), row});
        }
        ends.push_back(to.size());
    }
    merge_ascending(to, std::move(ends));
    return {};
}

Status ColdStore::for_each_run(int lane, const RowsOf & of, const Visit & visit) const {
    if (static_cast<size_t>(lane) >= lanes_->size()) { return {}; }
    const size_t of_row = row_bytes(*layout_, of);
    const auto most = static_cast<int32_t>(std::max<size_t>(1, kBufferBytes / of_row));
    std::vector<uint8_t> rows(static_cast<size_t>(most) * of_row);
    const std::vector<Segment> & segments = (*lanes_)[static_cast<size_t>(lane)].segments;
    for (size_t s = 0; s < segments.size(); ++s) {
        for (int32_t first = 0; first < segments[s].n; first += most) {
            const auto n = static_cast<size_t>(std::min(most, segments[s].n - first));
            const uint64_t at = first_row_at(segments[s], of) + static_cast<uint64_t>(first) * of_row;
            PITH_RETURN_IF_ERROR(read(segments[s], at, std::span(rows).first(n * of_row)));
            visit(static_cast<int>(s), first, std::span<const uint8_t>(rows).first(n * of_row));
        }
    }
    return {};
}

Status ColdStore::read_rows(int lane, const RowsOf & of, std::span<const Entry> entries, const CacheLayout & as,
                            uint8_t * to) const {
    if (entries.empty()) { return {}; }
    const std::vector<Segment> & segments = (*lanes_)[static_cast<size_t>(lane)].segments;
    std::vector<std::vector<size_t>> of_segments(segments.size());  // which entries
    for (size_t i = 0; i < entries.size(); ++i) { of_segments[static_cast<size_t>(entries[i].segment)].push_back(i); }
    const size_t of_row = row_bytes(*layout_, of);
    const size_t of_row_as = row_bytes(as, of);
    const auto most = static_cast<int32_t>(std::max<size_t>(1, kBufferBytes / of_row));
    std::vector<uint8_t> rows;
    std::vector<uint8_t> made;
    for (size_t s = 0; s < segments.size(); ++s) {
        std::vector<size_t> & wanted = of_segments[s];
        std::ranges::sort(wanted, {}, [&](size_t i) { return entries[i].row; });
        for (size_t first = 0; first < wanted.size();) {  // rows near each other are read, and turned into the others, at once
            const int32_t begin = entries[wanted[first]].row;
            int32_t end = begin + 1;
            size_t last = first + 1;
            while (last < wanted.size() && entries[wanted[last]].row < std::min(end + kRowsReadThrough, begin + most)) {
                end = entries[wanted[last++]].row + 1;
            }
            const auto n = static_cast<size_t>(end - begin);
            rows.resize(n * of_row);
            const uint64_t at = first_row_at(segments[s], of) + static_cast<uint64_t>(begin) * of_row;
            PITH_RETURN_IF_ERROR(read(segments[s], at, rows));
            if (last - first == n && follow_each_other(std::span(wanted).subspan(first, n))) {
                uint8_t * there = to + wanted[first] * of_row_as;
                convert_rows(*layout_, as, of, static_cast<int64_t>(n), rows.data(), there);
                first = last;
                continue;
            }
            made.resize(n * of_row_as);
            convert_rows(*layout_, as, of, static_cast<int64_t>(n), rows.data(), made.data());
            for (; first < last; ++first) {
                const size_t i = wanted[first];
                const auto row = static_cast<size_t>(entries[i].row - begin);
                std::copy_n(made.data() + row * of_row_as, of_row_as, to + i * of_row_as);
            }
        }
    }
    return {};
}

Result<RestingLanes> ColdStore::read_lanes(const RaggedCache & cache, std::vector<int> layers,
                                           std::span<const std::vector<Entry>> of_lanes, Spill where, const RunTasks & run,
                                           SpillMemory spare) const {
    const CacheLayout & layout = cache.layout();
    RestingLanes lanes;
    lanes.layers = std::move(layers);
    lanes.turned.resize(of_lanes.size());
    for (const std::vector<Entry> & entries : of_lanes) {
        std::vector<int32_t> & positions = lanes.positions.emplace_back();
        for (const Entry & entry : entries) { positions.push_back(entry.position); }
    }
    struct Part {
        RowsOf of;
        std::span<const Entry> entries;
        size_t at = 0;  // among the rows
        Status read;
    };
    std::vector<Part> parts;
    size_t bytes = 0;
    auto entries = of_lanes.begin();
    for (const int layer : lanes.layers) {
        for (int h = 0; h < cache.n_kv_heads(layer); ++h, ++entries) {
            for (const bool keys : {true, false}) {
                parts.push_back({{layer, h, keys}, *entries, bytes, {}});
                bytes += entries->size() * row_bytes(layout, parts.back().of);
            }
        }
    }
    if (spare.size_bytes() >= bytes) {
        lanes.own = std::move(spare);
    } else {
        spare = {};
        PITH_ASSIGN_OR_RETURN(lanes.own, SpillMemory::make(bytes, where));
    }
    PITH_RETURN_IF_ERROR(run(static_cast<int>(parts.size()), [&](int i) {
        Part & part = parts[static_cast<size_t>(i)];
        const int lane = cache.lane(0, part.of.layer, part.of.kv_head);
        part.read = read_rows(lane, part.of, part.entries, layout, lanes.own.data() + part.at);
    }));
    for (const Part & part : parts) { PITH_RETURN_IF_ERROR(part.read); }
    return lanes;
}

Status ColdStore::copy_segment(const Segment & segment, int layer,
                               const std::function<Status(std::span<const uint8_t>)> & to) const {
    std::vector<uint8_t> piece(kBufferBytes);
    const uint64_t end = segment.at + segment_bytes(segment, layer);
    for (uint64_t at = segment.at; at < end;) {
        const auto n = static_cast<size_t>(std::min<uint64_t>(piece.size(), end - at));
        PITH_RETURN_IF_ERROR(read(segment, at, std::span(piece).first(n)));
        PITH_RETURN_IF_ERROR(to(std::span<const uint8_t>(piece).first(n)));
        at += n;
    }
    return {};
}

}  // namespace pith
