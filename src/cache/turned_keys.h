// turned_keys.h - rows of K that stand elsewhere: what a turn puts into the lanes, and what it took out. Stage: cache.
//
// A model knows distances up to the length it was trained on, and positions grow for ever. Before they pass that length, the
// keys that are left turn to places side by side, as StreamingLLM has them and llama.cpp's context shift: RoPE is a rotation,
// so a key is rotated by the difference.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cache/spill_memory.h"

namespace pith {

// Whether keys of a lane stand in order: its first ones where `turned` says, the others at their position less `shift`.
inline bool stand_in_order(std::span<const int32_t> turned, std::span<const int32_t> positions, int32_t shift) {
    if (turned.size() > positions.size()) { return false; }
    if (std::ranges::adjacent_find(turned, std::greater_equal<>()) != turned.end()) { return false; }
    if (turned.empty()) { return shift == 0 || positions.empty() || positions.front() >= shift; }
    const bool ends = turned.size() < positions.size() && turned.back() >= positions[turned.size()] - shift;
    return turned.front() >= 0 && !ends;
}

struct TurnedKeys {
    std::vector<int> lengths;                    // [lane]: entries whose rows these are, from the first on
    std::vector<std::vector<int32_t>> standing;  // [lane]: where they stand; fewer than `lengths`: the rest by `shift`
    int32_t shift = 0;                           // RaggedCache::shift()
    SpillMemory rows;                            // of K, lane by lane
    std::vector<uint8_t> scratch;                // for one tile of rows

    size_t memory_bytes() const { return rows.memory_bytes() + scratch.capacity(); }
};

}  // namespace pith
