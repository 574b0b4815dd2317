// cold_store.h - entries that evictions took out of a sequence's lanes, outside memory and outside the budget. Stage: cache.
//
// An eviction appends what it takes, lane by lane, to a file without a name (cold_file.h); a saved context brings its own along
// in its file. Rows are rounded to a type of their own, keys stand at their original positions. What comes back into a lane
// stays here, too, marked: taken out once more, it costs nothing and is not rounded again.
//
// A value: copies share what is written, which never changes, so a snapshot, a way back and sequences that go on from one
// another cost a few words for each lane and eviction. Memory: 16 bytes for each of these, and the positions of what came back.
// Threads: one at a time; copies may be used on other threads, and what reads rows on several.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/cold_file.h"
#include "cache/made_rows.h"
#include "cache/ragged_cache.h"
#include "core/copy_on_write.h"
#include "core/tasks.h"
#include "pith/status.h"

namespace pith {

class ColdStore {
public:
    // Where an entry lies.
    struct Entry {
        int32_t position = 0;
        int32_t segment = 0;  // of its lane
        int32_t row = 0;      // in it
    };
    // What one eviction took out of a lane: positions i32 [n], ascending, rows of K, rows of V, from `at` on.
    struct Segment {
        uint64_t at = 0;
        int32_t n = 0;
        bool is_saved = false;  // in the file that the context came from
    };
    struct Lane {
        std::vector<Segment> segments;
        std::vector<int32_t> returned;  // positions, ascending, that the lane holds again
    };

    ColdStore() = default;  // keeps nothing
    // layout: of a cache of these rows. most_bytes: of all that this store refers to; what would be more is lost.
    ColdStore(std::shared_ptr<const CacheLayout> layout, uint64_t most_bytes);
    // With what a file holds. lanes: [lane of the cache]. REQUIRES: their segments are the saved file's, one behind the other.
    ColdStore(std::shared_ptr<const CacheLayout> layout, uint64_t most_bytes, std::shared_ptr<ColdFile> saved,
              std::vector<Lane> lanes);

    bool on() const { return layout_ != nullptr; }
    const CacheLayout & layout() const { return *layout_; }
    int64_t n_entries() const { return n_entries_; }  // without those that are back
    int64_t n_lost() const { return n_lost_; }        // for want of room
    uint64_t size_bytes() const { return n_bytes_; }  // on disk, of all that this one refers to
    uint64_t read_bytes() const { return read_bytes_; }
    const std::vector<Lane> & lanes() const { return *lanes_; }

    // What compact() with these plans will take out of the lanes; lost, once keys have moved together (RaggedCache::shift()).
    // All of it or, on an error, nothing. Errors: kOutOfMemory, kIo: no room on the disk, or no folder for temporary files.
    Status add_dropped(const RaggedCache & cache, std::span<const LayerKeep> keeps);
    // These of a lane's are back in it; positions ascending.
    void give_back(int lane, std::span<const int32_t> positions);

    // A lane's entries, ascending by position, without those that are back. Errors, here and below: kIo.
    Status entries_of(int lane, std::vector<Entry> & to) const;
    // All rows of K (or V) of a lane, a run of some at a time, as they lie here, from `row` of a segment on.
    // Memory: kBufferBytes.
    static constexpr size_t kBufferBytes = size_t{1} << 18U;
    using Visit = std::function<void(int segment, int row, std::span<const uint8_t> rows)>;
    Status for_each_run(int lane, const RowsOf & of, const Visit & visit) const;
    // The rows of these entries, in their order, as a cache of layout `as` holds them.
    Status read_rows(int lane, const RowsOf & of, std::span<const Entry> entries, const CacheLayout & as, uint8_t * to) const;
    // Of layers' lanes, one behind the other, these entries each, as the cache holds rows: they may be put back into it.
    // run: lanes side by side. spare: where they come to lie if they fit into it. Errors: also kOutOfMemory, and run()'s.
    Result<RestingLanes> read_lanes(const RaggedCache & cache, std::vector<int> layers,
                                    std::span<const std::vector<Entry>> of_lanes, Spill where,
                                    const RunTasks & run = run_in_turn, SpillMemory spare = {}) const;
    // A segment's bytes, piece by piece.
    Status copy_segment(const Segment & segment, int layer, const std::function<Status(std::span<const uint8_t>)> & to) const;
    uint64_t segment_bytes(const Segment & segment, int layer) const;

private:
    Status write_rows(const RaggedCache & cache, int layer, int kv_head, std::span<const int32_t> indices,
                      const Segment & segment) const;
    Status read(const Segment & segment, uint64_t at, std::span<uint8_t> bytes) const;
    uint64_t first_row_at(const Segment & segment, const RowsOf & of) const;

    std::shared_ptr<const CacheLayout> layout_;  // null: it keeps nothing
    uint64_t most_bytes_ = 0;
    std::shared_ptr<ColdFile> saved_;
    std::shared_ptr<ColdFile> spill_;                                        // null: nothing was evicted since
    CopyOnWrite<std::vector<std::shared_ptr<const ColdFile::Room>>> rooms_;  // of the spill file, one an eviction
    CopyOnWrite<std::vector<Lane>> lanes_;
    int64_t n_entries_ = 0;
    int64_t n_lost_ = 0;
    uint64_t n_bytes_ = 0;
    mutable uint64_t read_bytes_ = 0;
};

}  // namespace pith
