// paid_behind.h - what a prompt's newest tokens pay to each entry of the context, seen while all of it is back in the lanes
// (look_back.h): whoever chooses behind them what to keep (evict/repair.h) need not read what was evicted once more. Stage:
// attention → evidence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/status.h"

namespace pith {

struct LiveSession;

class PaidBehind {
public:
    // end_of_context: where the call's tokens begin. first: the position of the first that asks.
    PaidBehind(const LiveSession & session, int32_t end_of_context, int32_t first);

    int32_t end_of_context() const { return end_of_context_; }
    // The chunk at hand has gone through the layer, whose lanes hold all of the context's entries (or not: is_whole).
    // REQUIRES: evidence keeps the queries of the tokens that ask. Errors: kOutOfMemory, kCancelled, also thrown.
    // Cost: a product of their queries with the lanes' keys.
    Status add(LiveSession & session, int layer, bool is_whole);
    // Whether all n tokens that ask have been seen, in every layer that policies govern, with all entries there.
    bool is_whole(const LiveSession & session, int64_t n) const;
    // Of a lane's entries, kept and evicted, ascending by position; summed over queries and their heads.
    std::span<const float> of(int lane) const { return paid_[static_cast<size_t>(lane)]; }

private:
    int32_t end_of_context_;
    int32_t first_;
    bool whole_ = true;
    std::vector<std::vector<float>> paid_;  // [lane of the cache]
    std::vector<int64_t> n_seen_;           // [layer] tokens
};

}  // namespace pith
