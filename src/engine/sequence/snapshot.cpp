// snapshot.cpp - states to come back to. Stage: engine.
//
// Lanes only grow at their end between two compactions, so a snapshot is their lengths, and coming back is a cut. Before a
// compaction moves entries, the snapshots still alive save theirs, of the layers that it is about: those with a window lose
// entries more often than those that policies govern, and have few. Under a budget in bytes, which is all that lanes may take,
// what they save lies in files without names.
#include <utility>

#include "engine/sequence/sequence.h"

namespace pith {

Status Sequence::save_snapshots_before_compaction(Layers which) {
    const uint64_t now = epoch(which);
    std::erase_if(snapshots_, [](const auto & weak) { return weak.expired(); });
    for (const auto & weak : snapshots_) {
        const auto snapshot = weak.lock();
        if (!snapshot || snapshot->lengths.empty()) { continue; }
        Session::Snapshot::Part & part = snapshot->part(which);
        if (part.saved || part.epoch != now) { continue; }
        PITH_ASSIGN_OR_RETURN(part.saved, cache->save(0, snapshot->lengths, which, aside()));
    }
    return {};
}

// Coming back overwrites what lies beyond the snapshot's lengths: newer snapshots that still point there save it first.
Status Sequence::save_snapshots_that_restoring_breaks(const Session::Snapshot & target, Layers which) {
    const uint64_t now = epoch(which);
    for (const auto & weak : snapshots_) {
        const auto other = weak.lock();
        if (!other || other.get() == &target || other->lengths.empty()) { continue; }
        Session::Snapshot::Part & part = other->part(which);
        if (part.saved || part.epoch != now) { continue; }
        if (target.part(which).saved || other->state.n_tokens > target.state.n_tokens) {
            PITH_ASSIGN_OR_RETURN(part.saved, cache->save(0, other->lengths, which, aside()));
        }
    }
    return {};
}

size_t Sequence::saved_bytes() const {
    size_t n = 0;
    for (const auto & weak : snapshots_) {
        const auto snapshot = weak.lock();
        if (!snapshot) { continue; }
        n += snapshot->state.states.bytes_beside(states);
        for (const Session::Snapshot::Part & part : snapshot->parts) { n += part.saved ? part.saved->memory_bytes() : 0; }
    }
    return n;
}

std::shared_ptr<Session::Snapshot> Sequence::snapshot() {
    auto snapshot = std::make_shared<Session::Snapshot>();
    static_cast<SequenceAtRest &>(*snapshot) = at_rest();
    snapshot->sequence = id_;
    for (size_t i = 0; i < epochs_.size(); ++i) { snapshot->parts[i].epoch = epochs_[i]; }
    snapshot->lengths = lane_lengths();
    snapshots_.push_back(snapshot);
    return snapshot;
}

Status Sequence::restore(Session::Snapshot & snapshot) {
    SequenceAtRest back = snapshot.with(nullptr);  // what can fail comes first
    if (cache) {
        for (const Layers which : {Layers::kGoverned, Layers::kWindows}) {
            PITH_RETURN_IF_ERROR(save_snapshots_that_restoring_breaks(snapshot, which));
        }
        std::vector<const RestingLanes *> saved;
        for (const Session::Snapshot::Part & part : snapshot.parts) {
            if (part.saved) { saved.push_back(&*part.saved); }
        }
        PITH_RETURN_IF_ERROR(cache->load(0, saved));
        if (snapshot.lengths.empty()) {
            cache->clear(0);  // taken before the first prompt
        } else {
            truncate(snapshot.lengths);  // the lanes that were not loaded
        }
        for (size_t i = 0; i < epochs_.size(); ++i) {
            Session::Snapshot::Part & part = snapshot.parts[i];
            if (!part.saved) { continue; }
            part.saved.reset();  // the cache holds its entries again
            part.epoch = ++epochs_[i];
        }
    }
    back.cache = std::move(cache);
    become(std::move(back));
    return {};
}

}  // namespace pith
