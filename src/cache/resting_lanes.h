// resting_lanes.h - entries of a sequence's lanes outside its cache, to come back into it. Stage: cache.
//
// One form for all of them: what a snapshot saves before a compaction, what a failed call puts back, a sequence that is set
// aside, a session in a file. The rows lie lane by lane, those of K, then those of V: in memory, in a file without a name, or
// in a cache file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/spill_memory.h"
#include "file/mapped_file.h"

namespace pith {

struct RestingLanes {
    std::vector<int> layers;                      // whose lanes: all of each
    std::vector<std::vector<int32_t>> positions;  // [lane], layer by layer; ascending
    std::vector<std::vector<int32_t>> turned;     // [lane]: as RaggedCache::turned()
    int32_t shift = 0;                            // as RaggedCache::shift()
    SpillMemory own;                              // what holds their rows, or nothing:
    std::span<const uint8_t> in_file;             // a cache file's, which must live as long;
    std::shared_ptr<const MappedFile> file;       // and where it is mapped; null: nowhere

    const uint8_t * rows() const { return own.data() != nullptr ? own.data() : in_file.data(); }
    size_t n_entries() const {
        size_t n = 0;
        for (const auto & lane : positions) { n += lane.size(); }
        return n;
    }
    std::vector<int> lengths() const {  // [lane]
        std::vector<int> all;
        all.reserve(positions.size());
        for (const auto & lane : positions) { all.push_back(static_cast<int>(lane.size())); }
        return all;
    }
    // Rows [begin, end) have been read, and need not stay in memory for others.
    void let_go(const uint8_t * begin, const uint8_t * end) const {
        if (file && own.data() == nullptr) {
            file->drop(static_cast<size_t>(begin - file->bytes().data()), static_cast<size_t>(end - begin));
        }
    }
    size_t memory_bytes() const { return own.memory_bytes(); }
};

}  // namespace pith
