// lane_bytes.h - what lanes take, in pages, and what of it a plan must know. Stage: schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/ragged_cache.h"
#include "plan/run_plan.h"

namespace pith {

// Lanes of so many entries that have just been evicted. lengths: [lane of the model].
size_t page_bytes(const CacheLayout & layout, std::span<const int> lengths);

// The lanes of all layers with a window at most, while n_new tokens are on their way through them.
size_t window_bytes(const CacheLayout & layout, int64_t n_new);

// And recurrent layers: their states, and those that a call which fails goes back to.
size_t ungoverned_bytes(const CacheLayout & layout, int64_t n_new);

// How many lanes there are, and what an entry, a page and the layers that no policy governs take.
// REQUIRES: the layout outlives the request.
void put_lanes(const CacheLayout & layout, RunRequest & request);

}  // namespace pith
