// reservation.cpp - budget and headroom, or all tokens.
#include "engine/batch/reservation.h"

#include <algorithm>

#include "cache/page_memory.h"

namespace pith {

int64_t most_entries(const RunPlan & plan, const Policy & policy, const CacheShape & shape, int64_t n_prompt,
                     int64_t n_answer) {
    const int64_t n_lanes = shape.n_lanes();
    const int64_t all = n_lanes * (n_prompt + n_answer);
    if (plan.budget == 0) { return all; }
    const int64_t between = plan.grid > 0 ? plan.grid : plan.evict_every;
    const int64_t answering = plan.budget + (plan.evict_every > 0 ? between : n_answer);
    int64_t reading = n_lanes * (plan.budget + plan.period_of_prompt());
    if (plan.one_shot) {
        // Layers that have been evicted are within the budget, and one is whole; or all are, until the last has been seen.
        reading = policy.wants_all_layers() ? n_lanes * n_prompt : n_lanes * plan.budget + shape.n_kv_heads * n_prompt;
    }
    return std::min(all, std::max(reading, n_lanes * answering));
}

size_t most_bytes(const CacheLayout & layout, int64_t n_entries) {
    return static_cast<size_t>(n_entries) * layout.entry_bytes() +
           static_cast<size_t>(layout.shape.n_lanes()) * 2 * page_size_bytes();
}

}  // namespace pith
