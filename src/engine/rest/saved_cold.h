// saved_cold.h - evicted entries in a cache file: what there is of them, and the rows, which stay on disk. Stage: engine.
//
//   cold       the rows' type, the room for more, and of each lane its segments and what came back of them; then, where its
//              session looks back, at how many entries of a lane
//   cold-rows  segment by segment: positions i32, rows of K, rows of V
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/cache_file.h"
#include "cache/cold_store.h"
#include "pith/session.h"

namespace pith {

struct SavedCold {
    KvType type = KvType::kF16;
    bool is_rotated = false;
    uint64_t most_bytes = 0;
    std::optional<int64_t> most_back;    // its session looks back; RunPlan::most_back
    std::vector<ColdStore::Lane> lanes;  // of the cache
    uint64_t begin = 0;                  // of the rows in the file
    uint64_t size = 0;

    int64_t n_entries() const;
};

// Both sections. most_back: RunPlan::most_back. Errors: kIo. REQUIRES: store.on().
Status write_cold(CacheFileWriter & file, const ColdStore & store, const SessionOptions & options, int64_t most_back,
                  const std::vector<int> & layers_of_lanes);
// nullopt: the file has none. layers: of its model; positions [lane]: that the lanes hold; of a sequence of so many tokens.
// Errors: kBadFile: they make no sense, beside the rest.
Result<std::optional<SavedCold>> read_cold(const CacheFileView & file, const SessionOptions & options,
                                           const CacheLayout & layout, std::span<const std::vector<int32_t>> positions,
                                           int64_t n_tokens);

}  // namespace pith
