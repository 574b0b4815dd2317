// snapshot.cpp - states to come back to. Stage: engine.
//
// Lanes only grow at their end between two evictions, so a snapshot is their lengths, and coming back is a cut. Before an
// eviction moves entries, the snapshots still alive save theirs.
#include <algorithm>
#include <utility>

#include "engine/session_impl.h"

namespace pith {

std::vector<int> Session::Impl::lane_lengths() const {
    std::vector<int> lengths(static_cast<size_t>(shape().n_lanes()));
    for (size_t i = 0; i < lengths.size(); ++i) { lengths[i] = cache ? cache->length(static_cast<int>(i)) : 0; }
    return lengths;
}

void Session::Impl::save_snapshots_before_eviction() {
    std::erase_if(snapshots, [](const auto & weak) { return weak.expired(); });
    for (const auto & weak : snapshots) {
        const auto snapshot = weak.lock();
        if (snapshot && !snapshot->saved && snapshot->epoch == epoch) { snapshot->saved = cache->save(0, snapshot->lengths); }
    }
}

// Coming back overwrites what lies beyond the snapshot's lengths: newer snapshots that still point there save it first.
void Session::Impl::save_snapshots_that_restoring_breaks(const Snapshot & target) {
    for (const auto & weak : snapshots) {
        const auto other = weak.lock();
        if (!other || other.get() == &target || other->saved || other->epoch != epoch) { continue; }
        if (target.saved || other->n_tokens > target.n_tokens) { other->saved = cache->save(0, other->lengths); }
    }
}

size_t Session::Impl::saved_bytes() const {
    size_t n = 0;
    for (const auto & weak : snapshots) {
        const auto snapshot = weak.lock();
        if (snapshot && snapshot->saved) { n += snapshot->saved->size_bytes; }
    }
    return n;
}

Result<std::shared_ptr<Session::Snapshot>> Session::snapshot() {
    auto snapshot = std::make_shared<Snapshot>();
    snapshot->n_tokens = impl_->n_tokens;
    snapshot->since_eviction = impl_->since_eviction;
    snapshot->epoch = impl_->epoch;
    snapshot->lengths = impl_->lane_lengths();
    snapshot->evidence = impl_->evidence;
    snapshot->gate_state = impl_->gate_state;
    snapshot->logits = impl_->logits;
    snapshot->policy = impl_->policy;
    snapshot->policy_asked = impl_->options.policy;
    snapshot->policy_reason = impl_->policy_reason;
    snapshot->question_end = impl_->question_end;
    snapshot->budget = impl_->options.budget;
    snapshot->plan = impl_->plan;
    snapshot->owner = impl_.get();
    impl_->snapshots.push_back(snapshot);
    return snapshot;
}

Status Session::restore(const std::shared_ptr<Snapshot> & snapshot) {
    if (!snapshot || snapshot->owner != impl_.get()) {
        return {ErrorCode::kInvalidArgument, "a snapshot can only be restored into the session it was taken from"};
    }
    Impl & self = *impl_;
    if (self.cache && !snapshot->saved && snapshot->epoch != self.epoch) {
        return {ErrorCode::kOutOfMemory, "there was no memory to save this snapshot's entries when a failed call lost them"};
    }
    if (self.cache) {
        self.save_snapshots_that_restoring_breaks(*snapshot);
        const auto n_kv = static_cast<size_t>(self.shape().n_kv_heads);
        if (snapshot->saved) {
            PITH_RETURN_IF_ERROR(self.cache->load(0, *snapshot->saved));
            ++self.epoch;
            snapshot->saved.reset();  // the cache holds its entries again
            snapshot->epoch = self.epoch;
        } else {
            for (int l = 0; l < self.shape().n_layers; ++l) {
                self.cache->truncate(0, l, std::span(snapshot->lengths).subspan(static_cast<size_t>(l) * n_kv, n_kv));
            }
        }
    }
    self.evidence = snapshot->evidence;
    self.gate_state = snapshot->gate_state;
    self.n_tokens = snapshot->n_tokens;
    self.since_eviction = snapshot->since_eviction;
    self.logits = snapshot->logits;
    self.policy = snapshot->policy;
    self.options.policy = snapshot->policy_asked;
    self.policy_reason = snapshot->policy_reason;
    self.question_end = snapshot->question_end;
    self.options.budget = snapshot->budget;
    self.plan = snapshot->plan;
    self.tell_policy();
    self.ledger.budget_entries = self.plan ? self.plan->budget : 0;
    self.update_ledger();
    return {};
}

}  // namespace pith
