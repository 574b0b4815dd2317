// cold_scores.h - what a question's queries pay to a lane's entries, those it holds and those that were evicted, in one softmax
// over both. Stage: attention → evidence.
//
// Up to four lanes at a time, on several threads: their evicted keys are read from disk into scratch lanes beside their own,
// f16 (f32 where the cache has that).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/cold_store.h"
#include "engine/pass/live_session.h"
#include "policy/lane/swaps.h"

namespace pith {

// The queries of one layer, as they met its lanes: [n][H][d], the newest of the sequence.
struct AskedQueries {
    int layer = 0;
    std::vector<float> rows;
    std::vector<int32_t> positions;
    int32_t end_of_context = 0;  // the position behind it, where the question begins
};

// Of one lane's queries: all that they pay to what was evicted and to the rest of the context, over all of them.
struct PaidToBoth {
    double cold = 0;
    double kept = 0;
};

class ColdScorer {
public:
    explicit ColdScorer(LiveSession & session) : session_(session) {}

    // The lane's entries, kept and cold: positions, and which are which.
    // entries: of the cold ones, in their order. Errors: kIo.
    Status merge(int layer, int kv_head, LaneOfBoth & both, std::vector<ColdStore::Entry> & entries) const;
    // Of the context, and what the queries pay to each entry of the layer's lanes, head by head.
    // REQUIRES: the queries' own entries are in the lanes.   Errors: also kOutOfMemory, kCancelled.
    using Visit = std::function<void(int kv_head, LaneOfBoth && both, const PaidToBoth & paid)>;
    Status score(const AskedQueries & queries, const Visit & visit) const;

private:
    struct Scratch {  // one lane's entries, and a cache of that lane alone with its keys
        LaneOfBoth both;
        std::unique_ptr<RaggedCache> cache;
    };
    Status fill(const AskedQueries & queries, int kv_head, Scratch & scratch) const;
    Result<PaidToBoth> observe(const AskedQueries & queries, int kv_head, Scratch & scratch) const;
    std::vector<float> queries_of_lane(const AskedQueries & queries, int kv_head) const;

    LiveSession & session_;
};

}  // namespace pith
