// saved_cold.h - evicted entries in a cache file: what there is of them, and the rows, which stay on disk. Stage: engine.
//
//   cold       the rows' type, the room for more, and of each lane its segments and what came back of them
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
    std::vector<ColdStore::Lane> lanes;  // of the cache
    uint64_t begin = 0;                  // of the rows in the file
    uint64_t size = 0;

    int64_t n_entries() const;
};

// Both sections. Errors: kIo. REQUIRES: store.on().
Status write_cold(CacheFileWriter & file, const ColdStore & store, const SessionOptions & options,
                  const std::vector<int> & layers_of_lanes);
// nullopt: the file has none. layers: of its model; positions [lane]: that the lanes hold; of a sequence of so many tokens.
// Errors: kBadFile: they make no sense, beside the rest.
Result<std::optional<SavedCold>> read_cold(const CacheFileView & file, const SessionOptions & options,
                                           const CacheLayout & layout, std::span<const std::vector<int32_t>> positions,
                                           int64_t n_tokens);

}  // namespace pith
