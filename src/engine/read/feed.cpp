// feed.cpp - what a call opens, how it reads, and how it ends.
#include "engine/read/feed.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/items.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/evict/evict.h"
#include "engine/evict/observers.h"
#include "engine/evict/repair.h"
#include "engine/evict/turn.h"
#include "engine/pass/look_back.h"
#include "engine/pass/session_ledger.h"
#include "engine/pass/token_pass.h"
#include "engine/read/draft_behind.h"
#include "engine/read/read_chunks.h"
#include "engine/read/read_one_shot.h"
#include "engine/settle/auto.h"
#include "engine/settle/memory.h"
#include "engine/settle/session_plan.h"

namespace pith {
namespace {

bool cancelled(const RunHooks & hooks) {
    return hooks.cancel != nullptr && hooks.cancel->load();
}

Status cancelled_status(int64_t n_done) {
    return {ErrorCode::kCancelled, "cancelled after " + std::to_string(n_done) + " tokens"};
}

// What was cancelled in the middle of a run says how far the call had come.
Status with_progress(Status status, int64_t n_done) {
    return status.code() == ErrorCode::kCancelled ? cancelled_status(n_done) : std::move(status);
}

// The first prompt decides policy and plan, and makes the cache.
Status start(LiveSession & session, int64_t n_prompt, int n_question) {
    Sequence & seq = session.seq;
    // The lanes of an emptied session: where addresses are limited, the new ones want theirs.
    if (seq.cache && available_addresses() > 0) { PITH_ASSIGN_OR_RETURN(seq.cache, RaggedCache::make(session.layout, 1)); }
    PITH_RETURN_IF_ERROR(decide_plan(session, n_prompt, n_question));
    seq.question_end = n_question > 0 && session.observers.empty() ? n_prompt : 0;
    const bool in_sight = is_in_sight(*seq.plan);
    const bool all_fits = !seq.must_evict(n_prompt);
    const bool rereads = seq.policy.rereads();
    bool seen = n_question > 0 && in_sight && seq.evicts() && !rereads;
    if (!session.observers.empty() && (all_fits || !in_sight || rereads)) {
        session.observers = {};  // nothing is evicted, they are too many for a chunk, or nobody asks what they look for
        seq.plan->n_guide = 0;
        seen = false;
    }
    session.ledger.budget_entries = seq.plan->budget_at(n_prompt);
    session.ledger.most_entries = seq.plan->most_at(n_prompt);
    seq.schedule = name_of_schedule(*seq.plan, seen);
    tell_policy(policy_names(seq), session.ledger);

    const int64_t n_all = n_prompt + std::ssize(session.observers);
    PITH_ASSIGN_OR_RETURN(const int64_t capacity, lane_capacity(session, *seq.plan, n_all));
    PITH_ASSIGN_OR_RETURN(seq.cache, RaggedCache::make(session.layout, capacity));
    const EvidenceNeeds needs = needs_in_sight(seq.policy, session.observers);
    seq.evidence = EvidenceState(session.layout.shape_of_model(), all_needs(session, needs), session.output);
    seq.states = RecurrentStates(session.file->hparams());
    if (session.gates) { session.gates->reset(session.layout, seq); }
    return {};
}

// A token behind others, which nobody looks into and after which nothing is evicted, changes little before it has succeeded.
// Where entries leave a window behind it, memory for that may be missing once evidence has been told of it.
Sequence::Reach reach_of(const LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks,
                         bool keeps_whole_way_back) {
    const Sequence & seq = session.seq;
    const bool plain = tokens.size() == 1 && seq.n_tokens > 0 && !keeps_whole_way_back && !hooks.on_logits && !hooks.progress &&
                       !hooks.repair && !asked(session.gates) && !(is_prompt && looks_back(session)) &&
                       !(is_prompt ? seq.looked_for != nullptr : answer_looks(session));
    if (!plain) { return Sequence::Reach::kAll; }
    const int64_t n_lanes = session.shape().n_lanes();
    const bool due = seq.plan->is_due(seq.n_tokens + 1, seq.since_eviction + 1);
    const bool may_evict = due && seq.must_evict(seq.cache->n_entries() + n_lanes, n_lanes);
    const auto room = room_before_turn(session);
    const bool may_turn = room && (*room <= 1 || (due && *room <= 1 + seq.plan->longest_period()));
    if (may_evict || may_turn || !session.forward->can_run_tokens(*seq.cache, seq.evidence) || seq.gate_state.hides_any() ||
        seq.trims(seq.n_tokens + 1)) {
        return Sequence::Reach::kAll;
    }
    return Sequence::Reach::kOneToken;
}

Status read_one_shot(LiveSession & session, std::span<const int32_t> tokens, const RunHooks & hooks) {
    OneShotReader reader(session, tokens, hooks);
    while (!reader.done()) {
        if (cancelled(hooks)) { return cancelled_status(reader.n_done()); }
        PITH_RETURN_IF_ERROR(with_progress(reader.advance(), reader.n_done()));
        if (hooks.progress) { hooks.progress(reader.n_done(), std::ssize(tokens)); }
    }
    return {};
}

Status read_chunks(LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks, bool first) {
    std::optional<RepairBehind> behind;
    if (hooks.repair && !first) { behind.emplace(session, std::ssize(tokens)); }
    const bool decodes = !is_prompt && !first && tokens.size() == 1;  // a chosen token, behind which others may be foretold
    const bool looks = decodes && answer_looks(session);
    ChunkReader reader(session, tokens, first);
    while (!reader.done()) {
        if (cancelled(hooks)) { return cancelled_status(reader.n_done()); }
        const auto chunk = reader.next(std::ssize(tokens));
        const bool is_last = reader.n_done() + std::ssize(chunk) == std::ssize(tokens);
        // A token by itself is one graph with its logits, wanted or not.
        PassPiece piece{&session, chunk, is_last || chunk.size() == 1, {}, is_prompt && !hooks.is_answer, &hooks.on_logits};
        if (decodes) { piece.draft = draft_behind(session, session.options.draft_ngram, /*n_others=*/0); }
        PITH_RETURN_IF_ERROR(with_progress(run_pass(session, piece), reader.n_done()));
        const bool nothing_follows = !hooks.progress && !behind && !looks;  // a hook may throw
        PITH_RETURN_IF_ERROR(with_progress(reader.advance(std::ssize(chunk), nothing_follows), reader.n_done()));
        if (hooks.progress) { hooks.progress(reader.n_done(), std::ssize(tokens)); }
    }
    if (looks) { return with_progress(repair_answer(session), reader.n_done()); }
    return behind ? with_progress(behind->finish(), reader.n_done()) : Status();
}

}  // namespace

Status feed(LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks) {
    PITH_RETURN_IF_ERROR(check_tokens(*session.file, tokens));
    const auto n = static_cast<int64_t>(tokens.size());
    if (hooks.n_question < 0 || hooks.n_question > n) {
        return {ErrorCode::kInvalidArgument, item::kQuestion + " is " + std::to_string(hooks.n_question) + " of a prompt of " +
                                                 std::to_string(n) + " tokens: give 0 to all of them"};
    }
    if (hooks.repair && hooks.is_answer) {
        return {ErrorCode::kInvalidArgument,
                "RunHooks::repair is for tokens of a prompt, and is_answer says that these are none"};
    }
    if (hooks.repair && !session.options.look_back) {
        return {ErrorCode::kInvalidArgument, "RunHooks::repair is for a session that looks back: give " + item::kLookBack +
                                                 ", or call repair() before prefill()"};
    }
    const bool first = session.seq.n_tokens == 0;
    const CancelScope cancelling(*session.forward, hooks.cancel);
    const Status status = guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(begin_call(session, tokens, is_prompt, hooks));
        const bool one_shot = first && session.seq.plan->one_shot;
        return one_shot ? read_one_shot(session, tokens, hooks) : read_chunks(session, tokens, is_prompt, hooks, first);
    });
    end_call(session, status);
    return status;
}

Result<bool> feed_for(LiveSession & session, std::span<const int32_t> tokens, std::span<const int32_t> questions,
                      const RunHooks & hooks) {
    if (questions.empty()) {
        return {ErrorCode::kInvalidArgument,
                "prefill_for_questions() was given no questions: prefill() reads a prompt without"};
    }
    PITH_RETURN_IF_ERROR(check_tokens(*session.file, questions));
    if (session.seq.n_tokens != 0 || hooks.n_question != 0) {
        return {ErrorCode::kInvalidArgument,
                "prefill_for_questions() is for an empty session, and for a prompt that ends in no question (n_question 0)"};
    }
    const Observing observing(session, questions);
    PITH_RETURN_IF_ERROR(feed(session, tokens, /*is_prompt=*/true, hooks));
    return end_observing(session);
}

bool end_observing(LiveSession & session) {
    if (session.observers.empty()) { return false; }
    session.observers = {};
    // Without memory for it, the session goes on with what it had.
    static_cast<void>(guarded([&]() -> Status {
        Sequence & seq = session.seq;
        seq.evidence.narrow(all_needs(session, seq.policy.needs()));
        return {};
    }));
    return true;
}

Status begin_call(LiveSession & session, std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks,
                  bool keeps_whole_way_back) {
    Sequence & seq = session.seq;
    const auto n = static_cast<int64_t>(tokens.size());
    if (seq.n_tokens + n > kMostSequenceTokens) {
        return {ErrorCode::kInvalidArgument, "a sequence holds at most " + with_commas(kMostSequenceTokens) + " tokens, " +
                                                 with_commas(seq.n_tokens) + " were read, and " + with_commas(n) +
                                                 " are to come: begin a new one"};
    }
    const bool first = seq.n_tokens == 0;
    SessionGates * gates = session.gates.get();
    if (gates != nullptr) { gates->set_asked(!first && is_prompt && gates->wants_prompt(seq, first)); }
    const bool behind_others = seq.disposable && is_prompt && !first;
    const Sequence::Reach reach =
        behind_others ? Sequence::Reach::kAnew : reach_of(session, tokens, is_prompt, hooks, keeps_whole_way_back);
    // A token alone counts nothing before it has succeeded.
    if (reach != Sequence::Reach::kOneToken) { session.ledger_before = session.ledger; }
    seq.begin(reach);
    if (is_prompt) { begin_prompt(session, n); }
    seq.tokens.append(tokens);
    if (first) {
        const auto n_observers = static_cast<int>(session.observers.size());
        PITH_RETURN_IF_ERROR(start(session, n, n_observers == 0 ? hooks.n_question : n_observers));
        if (gates != nullptr) { gates->set_asked(is_prompt && gates->wants_prompt(seq, first)); }
    }
    if (!first) { PITH_RETURN_IF_ERROR(turn_if_due(session, /*is_last=*/false)); }  // behind evict(), which does not
    if (seq.plan->capacity > 0 && seq.n_tokens + n > seq.plan->capacity) {
        return {ErrorCode::kBudget, item::kBudget + " auto: the memory that was left holds " + with_commas(seq.plan->capacity) +
                                        " tokens, " + with_commas(seq.n_tokens) + " are there, and policy " +
                                        seq.policy.name() + " keeps them all: give a " + item::kBudget +
                                        " in numbers to evict"};
    }
    return {};
}

void end_call(LiveSession & session, const Status & status) noexcept {
    Sequence & seq = session.seq;
    if (session.gates) { session.gates->end_call(); }
    if (status.ok()) {
        see_evidence_peak(session);
        seq.commit();
        seq.logits.swap(session.next_logits);
    } else {
        update_ledger(session);  // peaks, while they can be seen
        seq.rollback();
        if (session.ledger_before) { forget_call(session, std::move(*session.ledger_before)); }
    }
    session.ledger_before.reset();
}

}  // namespace pith
