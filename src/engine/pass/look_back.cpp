// look_back.cpp - entries between entries, and out again.
#include "engine/pass/look_back.h"

#include <utility>
#include <vector>

#include "cache/cold_store.h"
#include "core/stopwatch.h"
#include "device/cpu_threads.h"
#include "engine/pass/live_session.h"
#include "engine/pass/paid_behind.h"

namespace pith {

bool looks_back(const LiveSession & session) {
    const Sequence & seq = session.seq;
    return session.options.look_back && seq.cold.n_entries() > 0 && seq.cache && seq.cache->shift() == 0 && seq.plan &&
           seq.plan->most_back > 0;
}

Status LookBack::bring(LiveSession & session, int layer, int64_t n_new, SpillMemory & staging) {
    const Stopwatch watch;
    Sequence & seq = session.seq;
    RaggedCache & cache = *seq.cache;
    const uint64_t read_before = seq.cold.read_bytes();
    layer_ = layer;
    n_new_ = n_new;
    std::vector<std::vector<ColdStore::Entry>> returning;  // [K]
    Ragged<int32_t> all_places;                            // [K] of these, among all
    std::vector<int64_t> lengths;                          // [K] of the lanes then, with the new tokens
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        auto & entries = returning.emplace_back();
        PITH_RETURN_IF_ERROR(seq.cold.entries_of(cache.lane(0, layer, h), entries));
        const int64_t n_out = std::ssize(entries) - seq.plan->most_back;
        if (n_out > 0) { entries.erase(entries.begin(), entries.begin() + n_out); }
        all_ = all_ && n_out <= 0;
        std::vector<int32_t> keep;
        std::vector<int32_t> places;
        auto next = entries.begin();
        int32_t at = 0;
        for (const int32_t position : cache.positions(cache.lane(0, layer, h))) {
            for (; next != entries.end() && next->position < position; ++next) { places.push_back(at++); }
            keep.push_back(at++);
        }
        for (; next != entries.end(); ++next) { places.push_back(at++); }
        all_places.push_row(places);
        keep_before_.push_row(keep);
        for (int64_t i = 0; i < n_new; ++i) { keep.push_back(at++); }
        keep_then_.push_row(keep);
        lengths.push_back(at);
    }
    PITH_ASSIGN_OR_RETURN(RestingLanes back, seq.cold.read_lanes(cache, {layer}, returning, Spill::kMemory,
                                                                 tasks_on(session.forward->observer()), std::move(staging)));
    if (cache.in_buckets(layer)) { PITH_RETURN_IF_ERROR(cache.make_whole()); }
    PITH_RETURN_IF_ERROR(cache.make_room(0, layer, lengths));
    norms_ = seq.evidence.layer(layer).output_l1;
    session_ = &session;  // from here on there is something to take out
    cache.put_back(0, back);
    // Its own rows, not what others left of the staging; and the new ones, which come while these are still held.
    const size_t n_held = back.n_entries() + static_cast<size_t>(n_new * cache.n_kv_heads(layer));
    seq.count_peak(n_held * cache.layout().rows(layer).bytes());
    staging = std::move(back.own);
    PITH_RETURN_IF_ERROR(cache.health());
    seq.evidence.put_between(layer, all_places);
    session.ledger.cold_read_bytes += static_cast<int64_t>(seq.cold.read_bytes() - read_before);
    session.ledger.look_back_s += watch.seconds();
    return {};
}

Status LookBack::end() {
    const Stopwatch watch;
    Sequence & seq = session_->seq;
    if (session_->asking != nullptr && n_new_ > 0) { PITH_RETURN_IF_ERROR(session_->asking->add(*session_, layer_, all_)); }
    seq.evidence.prepare_compact(layer_, keep_then_);
    LiveSession & session = *std::exchange(session_, nullptr);
    seq.cache->compact(0, layer_, keep_then_);
    seq.evidence.compact(layer_, keep_then_, /*evicts=*/false);
    seq.evidence.set_output_norms(layer_, norms_);
    session.ledger.look_back_s += watch.seconds();
    return seq.cache->health();
}

// Failed on the way: the call's own tokens go with them.
LookBack::~LookBack() {
    if (session_ != nullptr) { session_->seq.cache->compact(0, layer_, keep_before_); }
}

}  // namespace pith
