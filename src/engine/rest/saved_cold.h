// saved_cold.h - evicted entries in cache files: what there is of them, and the rows, which stay on disk. Stage: engine.
//
//   cold        the rows' type, the room for more, and of each lane its segments and what came back of them; then, where its
//               session looks back, at how many entries of a lane
//   cold-rows   segment by segment: positions i32, rows of K, rows of V
//
// Rows never change, and later turns of a conversation only add to them. So in a folder of states they may lie in files of
// their own, each with what was evicted since the one before it, and the state's file has no section cold-rows then. A file of
// rows has:
//
//   tokens      i32 each: those behind which its rows were evicted, from the end of the file before it on
//   cold-parts  the hash of the section cold-rows of the file before it (0: there is none); of each lane how many entries each
//               of its segments has, in this file and in those before it, and how many segments lie in each of these files
//   cold-rows   of the segments that are in none before it
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "cache/cold_store.h"
#include "pith/session.h"

namespace pith {

// Of each lane of a cache: in which of the files its segments lie.
struct ColdParts {
    struct Lane {
        std::vector<int32_t> lengths;     // entries of each segment, in their order
        std::vector<int32_t> n_segments;  // of each file
    };
    std::vector<Lane> lanes;
    uint64_t hash_before = 0;  // of the file before the last: of its section cold-rows

    size_t n_files() const { return lanes.empty() ? 0 : lanes.front().n_segments.size(); }
    // Whether what a store holds goes on from these.
    bool begin(const ColdStore & store) const;
};

struct SavedCold {
    KvType type = KvType::kF16;
    bool is_rotated = false;
    uint64_t most_bytes = 0;
    std::optional<int64_t> most_back;    // its session looks back; RunPlan::most_back
    std::vector<ColdStore::Lane> lanes;  // of the cache
    uint64_t n_bytes = 0;                // of rows
    std::vector<ColdFile::Part> rows;    // where they are; none: in other files, which were not given

    int64_t n_entries() const;
};

// rows: in this file, too. most_back: RunPlan::most_back. layout: of the cache. Errors, here and below: kIo.
// REQUIRES, of both: store.on().
Status write_cold(CacheFileWriter & file, const ColdStore & store, const SessionOptions & options, int64_t most_back,
                  const CacheLayout & layout, bool rows);
// A file of rows alone: those that are in none before it. tokens: from the end of the last of these on. before: what the last
// of them says, and the hash of its rows; where there is none, nothing.   REQUIRES: before.begin(store).
Status write_cold_part(const std::string & path, std::span<const int32_t> tokens, const ColdStore & store,
                       const CacheLayout & layout, ColdParts before);
// Of a file that write_cold_part() made. tokens: whose rows they must be; nullopt: not looked at.   Errors: kBadFile.
Result<ColdParts> read_cold_parts(const CacheFileView & file, std::optional<std::span<const int32_t>> tokens = std::nullopt);

// nullopt: the file has none. parts: the files of its rows, where it has none itself, in their order; none: what lies in them
// is not looked at. layout: of its model; positions [lane]: that the lanes hold; of a sequence of so many tokens. Errors:
// kBadFile: they make no sense, beside the rest.
Result<std::optional<SavedCold>> read_cold(const CacheFileView & file, std::span<const CacheFile> parts,
                                           const SessionOptions & options, const CacheLayout & layout,
                                           std::span<const std::vector<int32_t>> positions, int64_t n_tokens);

}  // namespace pith
