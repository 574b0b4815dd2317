// cold_scores.h - what a question's queries pay to a lane's entries, those it holds and those that were evicted, in one softmax
// over both. Stage: attention → evidence.
//
// A lane's evicted keys are read from disk into a scratch lane, beside its own, which are rounded for it as if they had been
// evicted: so both are scored alike, and nothing that is read is unpacked. Lanes side by side, each on one thread, whatever
// layer they are of; on devices, and where there are fewer lanes than threads, one after another.
// Memory: of each thread an evicted key and some 300 bytes for each entry of a lane; so many threads that this is at most
// 256 MiB, or one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/cold_store.h"
#include "engine/pass/live_session.h"
#include "evidence/cpu_observe.h"
#include "policy/lane/swaps.h"

namespace pith {

// The queries of one layer, the newest of the sequence.
struct AskedQueries {
    int layer = 0;
    std::vector<float> rows;  // [n][H][d], as they met its lanes
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
    // Of the context, and what the queries pay to each entry of the lanes of these layers, in any order, from several threads.
    // REQUIRES: the queries' own entries are in the lanes.   Errors: also kOutOfMemory, kCancelled.
    using QueriesOf = std::function<AskedQueries(int layer)>;  // asked from several threads, for each lane anew
    using Visit = std::function<void(int layer, int kv_head, LaneOfBoth && both, const PaidToBoth & paid)>;
    Status score(std::span<const int> layers, const QueriesOf & queries_of, const Visit & visit) const;

private:
    struct Scratch {  // a thread's, lane after lane: its entries, and a cache of that lane alone with its keys
        LaneOfBoth both;
        std::unique_ptr<RaggedCache> cache;
        ObserveSpace space;
    };
    struct Lane {
        int layer;
        int kv_head;
        bool is_scored;
        Status status;
    };
    Status score_side_by_side(std::span<Lane> lanes, const QueriesOf & queries_of, const Visit & visit) const;
    Status score_together(std::span<Lane> lanes, const QueriesOf & queries_of, const Visit & visit) const;
    // alone: on the calling thread.
    Status fill(int layer, int kv_head, bool alone, Scratch & scratch) const;
    Status observe(const AskedQueries & queries, int kv_head, bool alone, Scratch & scratch, const Visit & visit) const;
    std::vector<float> queries_of_lane(const AskedQueries & queries, int kv_head) const;

    LiveSession & session_;
};

}  // namespace pith
