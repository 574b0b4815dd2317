// engine_job_memory.cpp - what a job reserves and holds, and which states in memory it goes on from.
#include "engine/batch/engine_job.h"

#include <algorithm>
#include <utility>

#include "core/guarded.h"
#include "engine/settle/session_plan.h"
#include "plan/lane_bytes.h"
#include "plan/reservation.h"

namespace pith {

// Entries of a fork's own, at most: what it adds, and, where it moves or copies the base's, those too. plan: its own, where it
// evicts before its tokens come, else the base's.
int64_t EngineJob::most_of_fork(const EngineJob & base, const RunPlan & plan) const {
    const Extent from = base.extent();
    const int64_t n_lanes = session_->shape().n_lanes();
    const int64_t n_added = std::ssize(request_.tokens) + request_.max_tokens;
    const int64_t all = from.n_entries + n_lanes * n_added;
    const SequenceState & state = base.session_->seq;
    const int64_t budget = plan.budget_at(state.n_tokens + n_added);
    if (session_->layout.any_on_device()) { return all; }  // a fork may come to be a copy there
    if (request_.evict && plan.budget > 0) {               // a page is copied when a kept entry moves into it, and no other
        return std::min(all + n_lanes * plan.n_reread,
                        n_lanes * (budget + std::max<int64_t>(plan.period(), n_added) + plan.n_reread));
    }
    const bool exchanges = moves_entries(plan);
    if (exchanges && plan.period() == 0) { return all + n_lanes * plan.n_reread; }  // its answer is not evicted
    const int64_t n_looking = look_at_ ? std::ssize(request_.tokens) : 0;
    if (exchanges ||
        may_evict(plan, {state.n_tokens, state.since_eviction, from.n_entries, n_lanes, state.policy.keeps_less()}, n_added) ||
        may_turn(plan, state.n_tokens - from.shift, n_added)) {
        return std::min(all + n_lanes * plan.n_reread,
                        std::max(from.n_entries, n_lanes * (budget + plan.period() + plan.n_reread)) + n_lanes * n_looking);
    }
    return request_.keep || from.longest + n_added > from.capacity ? all : n_lanes * n_added;
}

// Whether all of its keys may turn, or lanes be cut for that, before so many tokens more have been fed, of which the next
// stands at `next`.
bool EngineJob::may_turn(const RunPlan & plan, int64_t next, int64_t n_added) const {
    return plan.budget > 0 && can_turn(*session_) &&
           next + n_added + plan.longest_period() >= session_->file->hparams().n_ctx_train;
}

// Entries of its lanes move although nothing is evicted: for what comes back.
bool EngineJob::moves_entries(const RunPlan & plan) const {
    return plan.budget > 0 && ((look_at_ && request_.repair) || session_->options.look_back);
}

// What is back of a layer while a prompt looks back, so many tokens read at the end.
size_t EngineJob::look_back_bytes(const RunPlan & plan, int64_t n_tokens) const {
    if (!session_->options.look_back || plan.budget == 0) { return 0; }
    const int64_t n = std::min(plan.most_back, n_tokens) * session_->shape().n_kv_heads;
    return static_cast<size_t>(kTimesBack * n) * session_->layout.rows().bytes();
}

// Of entries of its own behind a base's. Pages at both ends of what it adds to a lane may be used in part.
size_t EngineJob::bytes_behind(int64_t n_entries, const RunPlan & plan) const {
    return pith::most_bytes(session_->layout, 0) + pith::most_bytes(session_->layout, n_entries) +
           ungoverned_bytes(session_->layout, longest_piece(plan) + plan.n_reread);
}

// At most, without a base and with so many tokens of an answer. REQUIRES: it goes on from nobody's entries.
size_t EngineJob::most_alone(int64_t n_answer) const {
    const RunPlan & plan = *session_->given_plan;
    const int64_t n_observers = std::ssize(session_->observers);
    const int64_t n_prompt = std::ssize(request_.tokens) + n_observers;
    // Lanes on devices that get more of what comes back have that room before others lose theirs.
    const bool exchanges = moves_entries(plan) && session_->layout.any_on_device();
    const int64_t n_exchanged = exchanges ? session_->shape().n_lanes() * plan.budget_at(n_prompt) : 0;
    // Where answers are not evicted, the prompt's end that looks for what was evicted is not, either.
    if (look_at_ && plan.evict_every == 0) { n_answer += std::ssize(request_.tokens) - *look_at_; }
    return pith::most_bytes(session_->layout,
                            n_exchanged + most_entries(plan, session_->seq.policy, session_->shape(), n_prompt, n_answer)) +
           ungoverned_bytes(session_->layout, longest_piece(plan) + n_observers + plan.n_reread) +
           (plan.one_shot ? 0 : look_back_bytes(plan, n_prompt));
}

bool EngineJob::shorten_to(size_t bytes) {
    int64_t least = std::min(request_.least_tokens, request_.max_tokens);
    if (least <= 0 || request_.keep || request_.after != 0 || most_alone(least) > bytes) { return false; }
    for (int64_t most = request_.max_tokens; least < most;) {
        const int64_t middle = least + (most - least + 1) / 2;
        if (most_alone(middle) <= bytes) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    request_.max_tokens = static_cast<int>(least);
    n_room_ = std::min(n_room_, least);
    reserved_bytes_ = bytes_alone_ = most_alone(n_room_);
    return true;
}

size_t EngineJob::bytes_with_more_room() const {
    return shared_ ? most_behind_shared(next_room()) : most_alone(next_room());
}

void EngineJob::take_more_room() {
    reserved_bytes_ = bytes_with_more_room();
    n_room_ = next_room();
    bytes_alone_ = most_alone(n_room_);
}

// With entries of its own. One that goes on from a request's entries has done so.
void EngineJob::reserve_all() {
    if (n_room_ < request_.max_tokens) {
        n_room_ = request_.max_tokens;
        bytes_alone_ = most_alone(n_room_);
    }
    let_go_of_shared_state();
}

// At most, behind a state of its prompt's beginning, which lies in a base with so many cells to a lane. Where an eviction may
// move the base's entries, it copies them: that is all that it would take alone, but for pages in front that hold what is never
// evicted.
size_t EngineJob::most_behind(const SequenceState & state, int64_t n_tokens, const RaggedCache & base, int64_t capacity,
                              int64_t n_answer) const {
    const RunPlan & plan = *session_->given_plan;
    const int64_t n_lanes = session_->shape().n_lanes();
    const size_t alone = most_alone(n_answer);
    const int64_t n_added = std::ssize(request_.tokens) - n_tokens + n_answer;
    const int64_t longest = std::min<int64_t>(base.longest(), n_tokens);
    if (request_.keep || longest + n_added > capacity) { return alone; }  // it copies all of them
    if (session_->layout.any_on_device() || moves_entries(plan)) { return alone; }
    if (may_turn(plan, n_tokens - base.shift(), n_added)) { return alone; }
    if (may_evict(plan, {n_tokens, state.since_eviction, base.n_entries(), n_lanes, session_->seq.policy.keeps_less()},
                  n_added)) {
        const int64_t n_front = n_protected_in_front(session_->seq.policy, session_->options.pinned);
        return alone - std::min(alone, bytes_in_front(base, n_front));
    }
    return std::min(alone, bytes_behind(n_lanes * n_added, plan));
}

// Cells behind the lanes of a state that others go on from.
int64_t EngineJob::room_to_fork() const {
    return std::max<int64_t>(kForkRoom, session_->options.max_context);
}

size_t EngineJob::bytes_behind_own_state() const {
    const Sequence & seq = session_->seq;
    return most_behind(seq, seq.n_tokens, *seq.cache, seq.cache->longest() + room_to_fork(), n_room_);
}

size_t EngineJob::most_behind_shared(int64_t n_answer) const {
    return most_behind(shared_->state, n_shared_, *shared_->cache, shared_->cache->capacity(), n_answer);
}

EngineJob::Extent EngineJob::extent() const {
    if (is_aside()) { return extent_; }
    const RaggedCache & cache = *session_->seq.cache;
    return {cache.n_entries(), cache.longest(), cache.capacity(), cache.allocated_bytes() + state_bytes(nullptr),
            cache.shift()};
}

size_t EngineJob::kv_bytes(bool at_most) const {
    if (!session_ || !session_->seq.cache) { return 0; }
    const Sequence & seq = session_->seq;
    if (!at_most) { return seq.cache->allocated_bytes(); }
    return looks_back() ? std::max(seq.cache->peak_bytes(), seq.peak_bytes()) : seq.cache->peak_bytes();
}

size_t EngineJob::state_bytes(const EngineJob * base) const {
    if (!session_) { return 0; }
    const RecurrentStates & states = session_->seq.states;
    if (shared_) { return states.bytes_beside(shared_->state.states); }
    return base != nullptr && base->session_ ? states.bytes_beside(base->session_->seq.states) : states.size_bytes();
}

size_t EngineJob::other_bytes() const {
    size_t n = (request_.tokens.capacity() + answer_.capacity()) * sizeof(int32_t);
    if (session_) {
        n += session_->seq.bookkeeping_bytes() + session_->next_logits.capacity() * sizeof(float) +
             session_->pass.size_bytes() + session_->ahead.size_bytes() + session_->draft.size_bytes();
    }
    return n;
}

bool EngineJob::begins_as(const EngineJob & other, int64_t n) const {
    const std::span<const int32_t> here = request_.tokens;
    const std::span<const int32_t> there = other.request_.tokens;
    if (!scope_ || !other.scope_ || scope_->hash != other.scope_->hash) { return false; }
    if (scope_->whole_prompts) { return std::ranges::equal(here, there); }
    const auto size = static_cast<size_t>(n);
    return std::min(here.size(), there.size()) >= size && std::ranges::equal(here.first(size), there.first(size));
}

void EngineJob::look_for_shared_state() {
    if (!scope_) { return; }
    FoundShared found = states_->find_shared(*session_, *scope_, shareable(), ends_);
    shared_ = std::move(found.state);
    n_shared_ = found.n_tokens;
    copies_shared_ = false;
    reserved_bytes_ = shared_ ? most_behind_shared(n_room_) : bytes_alone_;
}

void EngineJob::let_go_of_shared_state() {
    shared_.reset();
    taken_.reset();
    reserved_bytes_ = bytes_alone_;
}

// What lies on disk of the state that it went on from cannot be read: whoever comes next begins anew.
void EngineJob::give_up_state(const Status & status) {
    if (status.code() != ErrorCode::kIo || states_ == nullptr || !scope_) { return; }
    const Status given_up = guarded([&]() -> Status {
        states_->give_up(*scope_, shareable());
        return {};
    });
    static_cast<void>(given_up);  // without memory it is tried once more
}

size_t EngineJob::idle_base_bytes() const {
    constexpr int64_t kHeldHereAndThere = 2;
    return shared_ && shared_.use_count() == kHeldHereAndThere ? shared_->bytes() : 0;
}

void EngineJob::copy_shared_state() {
    copies_shared_ = true;
    reserved_bytes_ = bytes_alone_;
}

void EngineJob::take_shared_state() {
    taken_ = states_->shared().take_out(*shared_);
    shared_.reset();
    reserved_bytes_ = bytes_alone_;
}

// A start that was taken back may have read parts.
void EngineJob::begin_afresh() {
    session_->seq.become({.state = *fresh_});
    session_->ledger.n_evictions = session_->ledger.evicted_entries = 0;
}

// The sequence is empty, or has read as much of the prompt as the longest state that was kept of its beginning.
Status EngineJob::begin_from_states() {
    if (taken_) {
        n_cached_ = n_shared_;
        const auto taken = std::exchange(taken_, nullptr);
        StoredStates::take_over(std::move(*taken), n_shared_, *session_);
        return {};
    }
    if (shared_) {  // all that it reserves may be what comes behind it: reading anew has no room then
        n_cached_ = n_shared_;
        states_->shared().touch(*shared_);
        const auto room = copies_shared_ ? std::optional(room_to_fork()) : std::nullopt;
        const Status begun = StoredStates::go_on_from({shared_, n_shared_}, room, *session_);
        if (copies_shared_) { shared_.reset(); }
        return begun;
    }
    n_cached_ = states_->begin(*session_, *scope_, shareable());
    n_cached_ == 0 ? begin_afresh() : hold_state();
    return {};
}

// The state that it has just read stays in memory, where it is of use and there is room.
void EngineJob::hold_state() {
    const Status held = guarded([&]() -> Status {
        const Sequence & seq = session_->seq;
        SharedStates & states = states_->shared();
        const std::vector<int32_t> tokens = seq.tokens.all();
        if (states.covers(*scope_, tokens, !seq.logits.empty())) { return {}; }
        const size_t bytes = seq.cache->allocated_bytes() + seq.cache->shared_bytes() + seq.states.size_bytes();
        const Holding how = how_to_hold_(*this, bytes);
        if (how == Holding::kNot) { return {}; }
        states.drop_given_up(*scope_, tokens);
        const size_t behind = how == Holding::kShared ? bytes_behind_own_state() : 0;
        auto state = states_->hold(*session_, *scope_, how == Holding::kCopied, room_to_fork());
        if (!state && how == Holding::kShared && seq.cache->shared_bytes() == 0) {
            // It has moved, and what should have gone on from there could not be made: the entries are its own now, in the room
            // that was made for both.
            shared_.reset();
            reserved_bytes_ = std::min(bytes_alone_, bytes + behind);
        }
        if (!state) { return {}; }
        if (how == Holding::kShared) {
            shared_ = std::move(state);
            n_shared_ = seq.n_tokens;
            reserved_bytes_ = most_behind_shared(n_room_);
        }
        states.drop_contained(*scope_, tokens);
        return {};
    });
    static_cast<void>(held);  // without memory for it others read anew
}

}  // namespace pith
