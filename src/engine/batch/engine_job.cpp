// engine_job.cpp - calls on a request's session, one after the other.
#include "engine/batch/engine_job.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/items.h"
#include "core/likeliest_token.h"
#include "engine/evict/evict_as.h"
#include "engine/evict/observers.h"
#include "engine/evict/repair.h"
#include "engine/pass/session_ledger.h"
#include "engine/pass/token_pass.h"
#include "engine/read/draft_behind.h"
#include "engine/read/feed.h"
#include "engine/rest/resume.h"
#include "engine/settle/make_session.h"
#include "engine/settle/session_plan.h"
#include "plan/lane_bytes.h"
#include "plan/reservation.h"

namespace pith {

namespace {

// Without its text where there is no memory for that.
Status copy_of(const Status & status) noexcept {
    try {
        return status;
    } catch (...) { return {status.code(), {}}; }
}

}  // namespace

Status EngineJob::check() const {
    if (request_.options.budget.kind == BudgetKind::kAuto) {
        return {ErrorCode::kInvalidArgument,
                "a request's budget is 'auto': in an engine the ceiling says what memory allows; give it in numbers, or none"};
    }
    if (request_.max_tokens < (request_.keep ? 0 : 1)) {
        return {ErrorCode::kInvalidArgument, item::kMaxTokens + " is " + std::to_string(request_.max_tokens) +
                                                 ": give at least 1, or 0 to a request that is kept"};
    }
    const auto n = static_cast<int64_t>(request_.tokens.size());
    if (request_.n_question < 0 || request_.n_question > n) {
        return {ErrorCode::kInvalidArgument, item::kQuestion + " is " + std::to_string(request_.n_question) +
                                                 " of a prompt of " + std::to_string(n) + " tokens: give 0 to all of them"};
    }
    if (request_.n_question > 0 && request_.after != 0) {
        return {ErrorCode::kInvalidArgument, item::kQuestion + " is " + std::to_string(request_.n_question) +
                                                 " behind another request's entries: those were chosen before it; give 0"};
    }
    if (!request_.questions.empty() && (!request_.keep || request_.after != 0 || request_.n_question != 0)) {
        return {ErrorCode::kInvalidArgument,
                item::kQuestions +
                    " are for a prompt that others go on from: one with keep, behind nobody's entries, that ends "
                    "in no question (n_question 0)"};
    }
    if (request_.evict && request_.after == 0) {
        return {ErrorCode::kInvalidArgument,
                "Request::evict is '" + request_.evict->policy.name() +
                    "' without a request to go on from: give Request::after, or put policy and budget into the options"};
    }
    if (request_.evict && request_.evict->budget.kind == BudgetKind::kAuto) {
        return {ErrorCode::kInvalidArgument,
                "Request::evict has the budget 'auto': in an engine the ceiling says what memory allows; give it in numbers"};
    }
    return {};
}

Status EngineJob::prepare(const Model & model, const EngineOptions & options, const std::shared_ptr<Execution> & execution,
                          const EngineJob * base, StoredStates * states, HowToHold how_to_hold) {
    PITH_RETURN_IF_ERROR(check());
    SessionOptions own = base != nullptr ? base->session_->options : request_.options;
    if (own.grid == 0) { own.grid = grid_for(options.grid, own.budget); }
    own.type_k = options.type_k;
    own.type_v = options.type_v;
    own.rotate_kv = options.rotate_kv;
    if (base != nullptr || !request_.keep) { own.observe.clear(); }
    own.n_snapshots = 0;
    PITH_ASSIGN_OR_RETURN(session_, make_session(model, own, execution));
    if (base == nullptr || !request_.tokens.empty()) { PITH_RETURN_IF_ERROR(check_tokens(*session_->file, request_.tokens)); }
    if (!request_.questions.empty()) { PITH_RETURN_IF_ERROR(check_tokens(*session_->file, request_.questions)); }
    const auto n = static_cast<int64_t>(request_.tokens.size());
    session_->seq.disposable = true;
    session_->seq.has_ceiling = options.ceiling.kind != BudgetKind::kNone;
    n_room_ = request_.max_tokens;
    if (base != nullptr) {
        session_->known_heads = base->session_->known_heads;
        RunPlan plan = *base->session_->seq.plan;
        if (request_.evict) {
            PITH_ASSIGN_OR_RETURN(const NextPolicy next,
                                  next_policy(*base->session_, request_.evict->policy, request_.evict->budget));
            plan = next.plan;
        }
        if (own.cold && n > 0) { look_at_ = 0; }
        reserved_bytes_ = bytes_alone_ =
            bytes_behind(most_of_fork(*base, plan), plan) + look_back_bytes(plan, base->session_->seq.n_tokens + n);
        return {};
    }
    hooks_.n_question = request_.n_question;
    begin_observing(*session_, request_.questions);
    const auto n_observers = static_cast<int>(std::ssize(session_->observers));
    PITH_RETURN_IF_ERROR(decide_plan(*session_, n, std::max(request_.n_question, n_observers)));
    const RunPlan plan = *session_->seq.plan;
    session_->ledger.budget_entries = plan.budget_at(n);  // to whoever asks while it waits
    session_->ledger.most_entries = plan.most_at(n);
    reads_layers_ = plan.one_shot;
    look_at_ = where_to_look(plan);
    // What is kept is to be whole when others go on from it; any other answer reserves as it goes on.
    if (!request_.keep) { n_room_ = std::min<int64_t>(n_room_, kAnswerRoom); }
    if (states != nullptr && request_.use_cache && request_.n_question == 0) {
        scope_ = states->scope_of(*session_, plan, request_.cache_name);
        if (look_at_ && scope_ && scope_->whole_prompts) { scope_.reset(); }
    }
    // The plan is this one when the prompt's turn has come, whatever memory is left then: it is what has been reserved for.
    session_->given_plan = std::exchange(session_->seq.plan, std::nullopt);
    reserved_bytes_ = bytes_alone_ = most_alone(n_room_);
    if (scope_) {
        states_ = states;
        how_to_hold_ = std::move(how_to_hold);
        const bool keeps_all = request_.keep || std::ranges::find(request_.cache_at, n) != request_.cache_at.end();
        ends_ = !scope_->whole_prompts ? ends_to_store(plan, std::ssize(shareable()), request_.cache_at)
                : keeps_all            ? std::vector<int64_t>{n}
                                       : std::vector<int64_t>();
    }
    if (scope_ || look_at_) { fresh_.emplace(session_->seq); }
    if (plan.budget == 0) {  // lanes that grow to the end grow once
        const int64_t trained = std::max<int64_t>(n + kForkRoom, session_->file->hparams().n_ctx_train);
        session_->options.max_context =
            static_cast<int>(std::max<int64_t>(own.max_context, std::min(n + request_.max_tokens, trained)));
    }
    return {};
}

// Of a prompt that begins anew. What was evicted in sight of its question needs no second look, and a context whose questions
// come later has none at its end: it is read, and evicted, to its end.
std::optional<int64_t> EngineJob::where_to_look(const RunPlan & plan) const {
    const bool in_sight = request_.n_question > 0 || !request_.questions.empty();
    const bool asks = request_.repair || request_.max_tokens > 0;
    if (!session_->options.cold || plan.budget == 0 || plan.one_shot || in_sight || !asks) { return std::nullopt; }
    const int64_t most = std::max<int64_t>(0, std::ssize(request_.tokens) - kMostLookingTokens);
    const int64_t at = plan.grid > 0 ? most - most % plan.grid : chunk_end_before(plan, most);  // lanes hold the budget there
    return at > 0 ? std::optional(at) : std::nullopt;
}

Status EngineJob::fork(const EngineJob & base) {
    SequenceAtRest begun = base.session_->seq.at_rest();
    PITH_ASSIGN_OR_RETURN(begun.cache, base.session_->seq.cache->fork());
    begun.state.schedule = name_of_schedule({.grid = begun.state.plan->grid}, /*seen=*/false);
    resume(*session_, std::move(begun));
    return {};
}

void EngineJob::start(const EngineJob * base, int64_t step) {
    state_ = RequestState::kReading;
    last_step_ = step;
    phase_ = Stopwatch();
    repair_before_ = session_->ledger.repair_s;
    const Status status = guarded([&]() -> Status {
        if (base != nullptr) { PITH_RETURN_IF_ERROR(fork(*base)); }
        begin_observing(*session_, request_.questions);
        if (request_.evict) { PITH_RETURN_IF_ERROR(evict_as(*session_, request_.evict->policy, request_.evict->budget)); }
        if (fresh_) { begin_afresh(); }
        if (scope_) { PITH_RETURN_IF_ERROR(begin_from_states()); }
        if (std::ssize(request_.tokens) == n_cached_) { return {}; }
        looks_ = n_cached_ == look_at_;
        return looks_ ? Status() : open_part();
    });
    if (!status.ok()) { return fail(status); }
    if (call_open_ || looks_) { return; }
    state_ = RequestState::kAnswering;
    if (request_.max_tokens == 0) { keep_state(); }
}

// Opens the call that reads the prompt's next part.
Status EngineJob::open_part() {
    part_ = request_.tokens;
    if (request_.after == 0) {
        const int64_t begin = session_->seq.n_tokens;
        const auto next = std::ranges::upper_bound(ends_, begin);
        int64_t end = next == ends_.end() ? std::ssize(part_) : *next;
        if (look_at_ && begin < *look_at_) { end = std::min(end, *look_at_); }
        part_ = part_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    }
    const bool first = session_->seq.n_tokens == 0;
    call_open_ = true;
    PITH_RETURN_IF_ERROR(begin_call(*session_, part_, /*is_prompt=*/true, hooks_));
    if (reads_layers_) {
        layers_.emplace(*session_, part_, hooks_);
    } else {
        chunks_.emplace(*session_, part_, first);
    }
    return {};
}

// A part of the prompt has been read: its state is kept where it is wanted. Whether there is another.
bool EngineJob::goes_on_reading() {
    if (request_.after != 0) { return false; }
    const int64_t n_read = session_->seq.n_tokens;
    looks_ = n_read == look_at_;
    if (scope_ && std::ranges::binary_search(ends_, n_read)) {
        states_->keep(*session_, *scope_);
        // The last of a prompt that nothing is evicted of serves all beginnings of it.
        if (!scope_->prefixes || n_read == ends_.back()) { hold_state(); }
    }
    return n_read < std::ssize(request_.tokens);
}

void EngineJob::look(int64_t step) {
    last_step_ = step;
    looks_ = false;
    const Status status = guarded([&]() -> Status {
        if (looks_back() && request_.repair) {  // chosen behind what is read next
            PITH_RETURN_IF_ERROR(open_part());
            behind_.emplace(*session_, std::ssize(part_));
            return {};
        }
        const std::span<const int32_t> tokens = request_.tokens;
        const int64_t newest = std::min(kMostLookingTokens, session_->seq.plan->longest_period());
        const auto n = static_cast<size_t>(request_.after != 0 ? std::ssize(tokens) : newest);
        PITH_RETURN_IF_ERROR(repair_for(*session_, tokens.last(n), request_.repair));
        return open_part();
    });
    if (!status.ok()) { fail(status); }
}

StepCandidate EngineJob::candidate() const {
    StepCandidate one;
    one.last_step = last_step_;
    one.priority = request_.priority;
    if (state_ == RequestState::kReading) {
        one.kind = layers_ ? StepCandidate::Kind::kReadsLayers : StepCandidate::Kind::kReadsChunks;
        one.n_left = chunks_ ? std::ssize(chunks_->next(std::numeric_limits<int64_t>::max())) : 1;
    }
    return one;
}

bool EngineJob::open_token(bool by_layers) {
    call_open_ = true;
    looks_for_more_ = answer_looks(*session_);
    const Status status = guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(
            begin_call(*session_, std::span(&pending_, 1), /*is_prompt=*/false, hooks_, /*keeps_whole_way_back=*/by_layers));
        chunks_.emplace(*session_, std::span<const int32_t>(&pending_, 1), /*first=*/false);
        return {};
    });
    if (!status.ok()) { fail(status); }
    return status.ok();
}

PassPiece EngineJob::piece(int64_t n) {
    const auto tokens = chunks_->next(n);
    const bool reads = state_ == RequestState::kReading;
    const int64_t n_all = reads ? std::ssize(part_) : 1;
    return {session_.get(), tokens, chunks_->n_done() + std::ssize(tokens) == n_all, {}, /*may_look_back=*/reads};
}

std::span<const int32_t> EngineJob::draft(int64_t most, int n_others) noexcept {
    std::span<const int32_t> tokens;
    const int64_t n_said = std::ssize(answer_);
    most = std::min({most, n_room_ - n_said, request_.max_tokens - n_said - 1});
    static_cast<void>(guarded([&]() -> Status {
        tokens = draft_behind(*session_, most, n_others);
        return {};
    }));
    return tokens;
}

Status EngineJob::run_alone(int64_t n) {
    return guarded([&] { return run_pass(*session_, piece(n)); });
}

// Other calls are open while this runs: whatever is thrown, before the call is complete or behind it, ends this request alone.
bool EngineJob::advance(int64_t n, int64_t step) {
    last_step_ = step;
    bool advanced = false;
    const Status status = guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(chunks_->advance(n, /*nothing_follows=*/!behind_ && !looks_for_more_));
        if (behind_ && chunks_->done()) { PITH_RETURN_IF_ERROR(behind_->finish()); }
        if (looks_for_more_) { PITH_RETURN_IF_ERROR(repair_answer(*session_)); }
        advanced = true;
        n_read_ += state_ == RequestState::kReading ? n : 0;
        if (chunks_->done()) { take_token(); }
        return {};
    });
    if (!status.ok() && !ended()) { fail(status); }
    return advanced;
}

void EngineJob::advance_layered(int64_t step) {
    last_step_ = step;
    const Status status = guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(layers_->advance());
        if (!layers_->done()) { return {}; }
        n_read_ += std::ssize(part_);
        take_token();
        return {};
    });
    if (!status.ok() && !ended()) { fail(status); }
}

// The call has succeeded: its logits give the next token.
void EngineJob::take_token() {
    end_call(*session_, {});
    close_call();
    alone_ = false;
    Ledger & ledger = session_->ledger;
    if (state_ == RequestState::kReading && goes_on_reading()) {
        if (looks_) { return; }  // between two steps
        const Status status = guarded([&] { return open_part(); });
        if (!status.ok()) { fail(status); }
        return;
    }
    if (state_ == RequestState::kReading) {
        questions_seen_ = end_observing(*session_);
        ledger.n_prompt += std::ssize(request_.tokens) - n_cached_;
        ledger.prefill_s += phase_.seconds() - (ledger.repair_s - repair_before_);
        release_graphs(*session_);
    } else {
        ++ledger.n_generated;
        ledger.decode_s += phase_.seconds();
    }
    phase_ = Stopwatch();
    update_ledger(*session_);
    state_ = RequestState::kAnswering;
    request_.max_tokens == 0 ? keep_state() : choose_token();
}

// Who chooses may cancel the request: the logits that it reads outlive the session.
Result<int32_t> EngineJob::ask_who_chooses() {
    struct Lent {
        explicit Lent(EngineJob & of) : job(of), logits(std::exchange(of.session_->seq.logits, {})) {}
        ~Lent() {
            if (!job.ended()) { job.session_->seq.logits = std::move(logits); }
        }
        Lent(const Lent &) = delete;
        Lent & operator=(const Lent &) = delete;
        EngineJob & job;
        std::vector<float> logits;
    };
    const Lent lent(*this);
    return request_.choose(lent.logits);
}

void EngineJob::choose_token() {
    has_token_ = true;
    bool goes_on = true;
    const Status status = guarded([&]() -> Status {
        auto chosen = request_.choose ? ask_who_chooses() : Result<int32_t>(likeliest_token(session_->seq.logits));
        if (ended()) { return {}; }  // cancelled by who chose
        PITH_ASSIGN_OR_RETURN(pending_, std::move(chosen));
        PITH_RETURN_IF_ERROR(check_tokens(*session_->file, std::span(&pending_, 1)));
        if (std::ranges::find(request_.stop, pending_) != request_.stop.end()) {
            goes_on = false;
            return {};
        }
        answer_.push_back(pending_);
        goes_on = !(request_.on_token && !request_.on_token(pending_)) && std::ssize(answer_) < request_.max_tokens;
        return {};
    });
    if (ended()) { return; }  // cancelled by who was shown the token
    if (!status.ok()) { return end(RequestState::kFailed, copy_of(status)); }
    if (!goes_on) { request_.keep ? keep_state() : end(RequestState::kDone); }
}

// Its lanes become what others may begin with.
void EngineJob::keep_state() {
    const Status status = guarded([&] { return session_->seq.cache->freeze(kForkRoom); });
    if (!status.ok()) { return end(RequestState::kFailed, copy_of(status)); }
    const RaggedCache & cache = *session_->seq.cache;
    // Its entries have been copied; but on a device without memory for that they are the state's still, which nobody may take
    // over.
    if (!cache.any_in_buckets() || cache.shared_bytes() == 0) { let_go_of_shared_state(); }
    update_ledger(*session_);
    state_ = RequestState::kDone;
}

void EngineJob::close_call() {
    call_open_ = false;
    chunks_.reset();
    layers_.reset();
    behind_.reset();
    looks_for_more_ = false;
}

void EngineJob::take_back(const Status & status) {
    give_up_state(status);
    end_call(*session_, status);
    close_call();
    if (status.code() != ErrorCode::kCancelled) {
        if (alone_) { return end(RequestState::kFailed, copy_of(status)); }
        alone_ = true;
    }
    if (state_ == RequestState::kReading) {  // and begins anew
        state_ = RequestState::kWaiting;
        n_read_ = 0;
        session_->seq.cache.reset();
        let_go_of_shared_state();
    }
}

void EngineJob::fail(const Status & status) {
    if (status.code() == ErrorCode::kCancelled) { return take_back(status); }
    give_up_state(status);
    end(RequestState::kFailed, copy_of(status));
}

// A prompt that is given up half-way: who asks again goes on from where it was.
void EngineJob::keep_what_was_read() {
    const bool reads = state_ == RequestState::kReading && call_open_ && chunks_ && scope_ && !scope_->whole_prompts;
    const bool has_looked = look_at_ && session_->seq.n_tokens > *look_at_;
    if (!reads || has_looked || !chunks_->at_chunk_end() || chunks_->done()) { return; }
    Sequence & seq = session_->seq;
    seq.tokens.truncate(static_cast<size_t>(seq.n_tokens));  // the rest of the call's were to come
    session_->next_logits.clear();                           // of the middle of a prompt there are none
    end_call(*session_, {});
    call_open_ = false;
    hold_state();
}

void EngineJob::cancel() {
    keep_what_was_read();
    end(RequestState::kCancelled, {ErrorCode::kCancelled, "the request was cancelled"});
}

void EngineJob::end(RequestState state, Status status) {
    if (call_open_) { end_call(*session_, status); }
    close_call();
    aside_.reset();
    state_ = state;
    status_ = std::move(status);
    if (session_) {
        ledger_ = std::move(session_->ledger);
        // To whoever asks what it held, the state that it read is a part of that.
        if (shared_ && session_->seq.cache) { ledger_.kv_allocated_bytes += session_->seq.cache->shared_bytes(); }
    }
    session_.reset();
    shared_.reset();
    taken_.reset();
}

Status EngineJob::set_aside(const std::string & folder) {
    return guarded([&]() -> Status {
        const Extent before = kept() ? extent() : Extent();
        PITH_ASSIGN_OR_RETURN(aside_, SequenceAside::take(*session_, folder));
        extent_ = before;
        if (kept()) { return {}; }
        reserve_all();  // it comes back with entries of its own, to stay
        state_ = RequestState::kSetAside;
        return {};
    });
}

Status EngineJob::bring_back() {
    return guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(aside_->put_back(*session_, kept() ? std::optional(kForkRoom) : std::nullopt));
        aside_.reset();
        if (!kept()) { state_ = RequestState::kAnswering; }
        return {};
    });
}

}  // namespace pith
