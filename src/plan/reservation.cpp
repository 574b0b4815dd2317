// reservation.cpp - budget and headroom, or all tokens.
#include "plan/reservation.h"

#include <algorithm>

#include "cache/bucket_lanes.h"
#include "cache/page_memory.h"

namespace pith {

int64_t most_entries(const RunPlan & plan, const Policy & policy, const CacheShape & shape, int64_t n_prompt,
                     int64_t n_answer) {
    const int64_t n_lanes = shape.n_lanes();
    const int64_t all = n_lanes * (n_prompt + n_answer);
    if (plan.budget == 0) { return all + n_lanes * plan.n_reread; }
    const int64_t budget = plan.budget_at(n_prompt + n_answer);
    const int64_t between = plan.grid > 0 ? plan.grid : plan.evict_every;
    const int64_t answering = budget + (plan.evict_every > 0 ? between + plan.n_reread : n_answer);
    int64_t reading = n_lanes * (budget + plan.period_of_prompt() + plan.n_reread);
    if (plan.one_shot && policy.rereads()) {
        reading = n_lanes * (n_prompt + plan.n_reread);
    } else if (plan.one_shot) {
        // Layers that have been evicted are within the budget, and one is whole; or all are, until the last has been seen.
        reading = policy.wants_all_layers() ? n_lanes * n_prompt : n_lanes * budget + shape.n_kv_heads * n_prompt;
    }
    return std::min(all + n_lanes * plan.n_reread, std::max(reading, n_lanes * answering));
}

bool may_evict(const RunPlan & plan, const HeldEntries & held, int64_t n_added) {
    if (plan.budget == 0 || plan.evict_every == 0) { return false; }
    if (!held.keeps_less && held.n_entries + held.n_lanes * n_added <= held.n_lanes * plan.budget_at(held.n_tokens)) {
        return false;
    }
    if (plan.grid > 0) { return (held.n_tokens + n_added) / plan.grid > held.n_tokens / plan.grid; }
    return held.since_eviction + n_added >= plan.evict_every;
}

int64_t n_protected_in_front(const Policy & policy, std::span<const PositionSpan> pinned) {
    int64_t n = policy.n_sinks();
    for (bool grows = true; grows;) {  // spans come in any order
        grows = false;
        for (const PositionSpan & span : pinned) {
            if (span.begin > n || span.end <= n) { continue; }
            n = span.end;
            grows = true;
        }
    }
    return n;
}

size_t bytes_in_front(const RaggedCache & cache, int64_t n) {
    const CacheLayout & layout = cache.layout();
    const auto whole_pages = [](int64_t rows, size_t row_bytes) {
        return static_cast<size_t>(rows) * row_bytes / page_size_bytes() * page_size_bytes();
    };
    size_t bytes = 0;
    for (int l = 0; l < layout.n_layers(); ++l) {
        const LaneRows rows = layout.rows(l);
        for (int h = 0; layout.governs(l) && h < cache.n_kv_heads(l); ++h) {
            const auto positions = cache.positions(cache.lane(0, l, h));
            int64_t in_front = 0;
            while (in_front < std::min(n, std::ssize(positions)) && positions[static_cast<size_t>(in_front)] == in_front) {
                ++in_front;
            }
            bytes += whole_pages(in_front, rows.bytes_k()) + whole_pages(in_front, rows.bytes_v());
        }
    }
    return bytes;
}

int64_t longest_piece(const RunPlan & plan) {
    return int64_t{std::max(plan.chunk, 1)} + plan.n_guide;
}

size_t most_bytes(const CacheLayout & layout, int64_t n_entries) {
    if (layout.any_on_device()) {  // rounded up to steps, some of them ahead of the entries, and one layer twice
        const int64_t n_lanes = layout.shape.n_lanes() + layout.shape.n_kv_heads;
        const int64_t twice = n_entries / layout.shape.n_layers;
        return static_cast<size_t>(n_entries + twice + n_lanes * (BucketLanes::kStep + BucketLanes::kAhead)) *
               layout.entry_bytes();
    }
    return static_cast<size_t>(n_entries) * layout.entry_bytes() +
           static_cast<size_t>(layout.shape.n_lanes()) * 2 * page_size_bytes();
}

}  // namespace pith
