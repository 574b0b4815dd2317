// snapshot.cpp - states to come back to. Stage: engine.
//
// Lanes only grow at their end between two compactions, so a snapshot is their lengths, and coming back is a cut. Before a
// compaction moves entries, the snapshots still alive save theirs.
#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "engine/session_impl.h"

namespace pith {

void Sequence::save_snapshots_before_compaction() {
    std::erase_if(snapshots_, [](const auto & weak) { return weak.expired(); });
    for (const auto & weak : snapshots_) {
        const auto snapshot = weak.lock();
        if (snapshot && !snapshot->saved && snapshot->epoch == epoch_ && !snapshot->lengths.empty()) {
            snapshot->saved = cache->save(0, snapshot->lengths);
        }
    }
}

// Coming back overwrites what lies beyond the snapshot's lengths: newer snapshots that still point there save it first.
void Sequence::save_snapshots_that_restoring_breaks(const Session::Snapshot & target) {
    for (const auto & weak : snapshots_) {
        const auto other = weak.lock();
        if (!other || other.get() == &target || other->saved || other->epoch != epoch_ || other->lengths.empty()) { continue; }
        if (target.saved || other->state.n_tokens > target.state.n_tokens) { other->saved = cache->save(0, other->lengths); }
    }
}

size_t Sequence::saved_bytes() const {
    size_t n = 0;
    for (const auto & weak : snapshots_) {
        const auto snapshot = weak.lock();
        if (snapshot && snapshot->saved) { n += snapshot->saved->size_bytes; }
    }
    return n;
}

std::shared_ptr<Session::Snapshot> Sequence::snapshot() {
    auto snapshot = std::make_shared<Session::Snapshot>();
    snapshot->state = *this;
    snapshot->logits = logits;
    snapshot->sequence = id_;
    snapshot->epoch = epoch_;
    snapshot->lengths = lane_lengths();
    snapshots_.push_back(snapshot);
    return snapshot;
}

Status Sequence::restore(Session::Snapshot & snapshot) {
    SequenceState state = snapshot.state;  // what can fail comes first
    std::vector<float> its_logits = snapshot.logits;
    if (cache) {
        save_snapshots_that_restoring_breaks(snapshot);
        if (snapshot.saved) {
            PITH_RETURN_IF_ERROR(cache->load(0, *snapshot.saved));
            ++epoch_;
            snapshot.saved.reset();  // the cache holds its entries again
            snapshot.epoch = epoch_;
        } else if (snapshot.lengths.empty()) {
            cache->clear(0);  // taken before the first prompt
        } else {
            truncate(snapshot.lengths);
        }
    }
    static_cast<SequenceState &>(*this) = std::move(state);
    logits = std::move(its_logits);
    return {};
}

Result<std::shared_ptr<Session::Snapshot>> Session::snapshot() {
    return guarded([&]() -> Result<std::shared_ptr<Snapshot>> { return impl_->seq.snapshot(); });
}

Status Session::restore(const std::shared_ptr<Snapshot> & snapshot) {
    Status restored = guarded([&]() -> Status {
        if (!snapshot || snapshot->sequence != impl_->seq.id()) {
            return {ErrorCode::kInvalidArgument, "a snapshot can only be restored into the session it was taken from"};
        }
        Impl::PolicyNames names = impl_->policy_names(snapshot->state);
        PITH_RETURN_IF_ERROR(impl_->seq.restore(*snapshot));
        impl_->tell_policy(std::move(names));
        return {};
    });
    if (!restored.ok()) { return restored; }
    impl_->ledger.budget_entries = impl_->seq.plan ? impl_->seq.plan->budget : 0;
    impl_->update_ledger();
    return {};
}

}  // namespace pith
