// prefill.cpp - a call from its first check to its commit: the plan, the tokens through the layers, the logits. Stage: engine.
#include <algorithm>
#include <string>
#include <utility>

#include "core/guarded.h"
#include "core/items.h"
#include "core/stopwatch.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/model_parts.h"
#include "engine/read_chunks.h"
#include "engine/read_one_shot.h"
#include "engine/session_impl.h"
#include "plan/budget_check.h"
#include "plan/lane_bytes.h"
#include "plan/protected_tokens.h"

namespace pith {
namespace {

constexpr int kLogitRows = 64;  // positions whose logits are computed at a time

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

}  // namespace

Result<RunPlan> Session::Impl::make_plan(const Policy & for_policy, const Budget & budget, PrefillSchedule schedule,
                                         int64_t n_prompt, int n_question) const {
    RunRequest request;
    request.budget = budget;
    if (budget.kind == BudgetKind::kAuto) {
        // Snapshots copy what an eviction moves: nothing, where none is.
        PITH_ASSIGN_OR_RETURN(request.budget, memory_budget(for_policy.evicts() ? options.n_snapshots : 0));
    }
    request.is_auto = budget.kind == BudgetKind::kAuto;
    request.evicts = for_policy.evicts();
    request.gated = for_policy.gated();
    request.whole_prompt = needs_whole_prompt(for_policy);
    request.prefill = schedule;
    request.chunk = options.chunk;
    request.evict_every = options.evict_every;
    request.grid = options.grid;
    request.n_prompt = n_prompt;
    // Gates decide what is cached before a layer's attention: observers that are taken back again have no place there.
    request.n_question = for_policy.gated() ? 0 : n_question;
    request.taken_back = !observers.empty();
    request.free_bytes = n_question > 0 ? available_memory() : 0;
    if (const size_t addresses = n_question > 0 ? available_addresses() : 0; addresses > 0) {
        const auto chunk = static_cast<size_t>(chunk_bytes());
        request.free_addresses = addresses > chunk ? addresses - chunk : 1;
    }
    const bool for_others = !for_policy.evicts() && std::ranges::any_of(observed, &EvidenceNeeds::reread_max);
    request.rereads = for_policy.rereads() || for_others;
    request.n_reread_prompt = n_around_reread();
    request.state_bytes = static_cast<size_t>(file->hparams().n_embd) * sizeof(float);
    put_lanes(layout, request);
    if (for_policy.evicts()) {
        const int64_t n_most = n_served(options, n_prompt);
        request.n_protected = least_budget(for_policy, options.pinned, n_most).value_or(n_most);
    }
    return plan_run(request);
}

// Tokens that stand in front of a piece that is read again, at most.
int Session::Impl::n_around_reread() const {
    const RereadPrompt & prompt = options.reread;
    const size_t in_front = std::max(prompt.first.size(), prompt.next.size() + (prompt.next.empty() ? 0 : kRereadHint));
    return static_cast<int>(in_front + prompt.behind.size());
}

// The first prompt decides policy and plan.
Status Session::Impl::decide(int64_t n_prompt, int n_question) {
    AutoFacts facts;
    facts.gates = known_gates(gates ? &gates->gate() : nullptr);
    facts.may_reread = options.auto_may_reread && n_question == 0;  // all that a question may bring is planned alike
    facts.roomy = memory_holds_all(n_prompt + std::ssize(observers));
    facts.even = seq.budget.kind == BudgetKind::kAuto && available_addresses() > 0;
    settle_policy(facts);
    if (given_plan) {
        seq.plan = given_plan;
    } else {
        PITH_ASSIGN_OR_RETURN(seq.plan, make_plan(seq.policy, seq.budget, options.prefill, n_prompt, n_question));
    }
    // All that `auto` may choose from here on is planned alike, so the plan can be asked what will be in sight.
    const bool in_sight = seq.plan->one_shot || seq.plan->n_guide > 0;
    facts.question = n_question == 0 ? KnownQuestion::kUnknown
                     : in_sight      ? KnownQuestion::kInSight
                                     : KnownQuestion::kOutOfSight;
    settle_policy(facts);
    return check_prompt(options, seq.policy, seq.budget, *seq.plan, n_prompt);
}

// And makes the cache.
Status Session::Impl::start(int64_t n_prompt, int n_question) {
    // The lanes of an emptied session: where addresses are limited, the new ones want theirs.
    if (seq.cache && available_addresses() > 0) { PITH_ASSIGN_OR_RETURN(seq.cache, RaggedCache::make(layout, 1)); }
    PITH_RETURN_IF_ERROR(decide(n_prompt, n_question));
    seq.question_end = n_question > 0 && observers.empty() ? n_prompt : 0;
    const bool in_sight = seq.plan->one_shot || seq.plan->n_guide > 0;
    const bool all_fits = !evicts() || n_prompt <= seq.plan->budget;
    const bool rereads = seq.policy.rereads();
    bool seen = n_question > 0 && in_sight && evicts() && !rereads;
    if (!observers.empty() && (all_fits || !in_sight || rereads)) {
        observers = {};  // nothing is evicted, they are too many for a chunk, or nobody asks what they look for
        seq.plan->n_guide = 0;
        seen = false;
    }
    ledger.budget_entries = seq.plan->budget;
    seq.schedule = name_of_schedule(*seq.plan, seen);
    tell_policy(policy_names(seq));

    PITH_ASSIGN_OR_RETURN(const int64_t capacity, lane_capacity(n_prompt + std::ssize(observers)));
    PITH_ASSIGN_OR_RETURN(seq.cache, RaggedCache::make(layout, capacity));
    seq.evidence = EvidenceState(layout.shape_of_model(), all_needs(needs_in_sight()), output);
    seq.states = RecurrentStates(file->hparams());
    reset_gates();
    return {};
}

Status Session::Impl::check_tokens(std::span<const int32_t> tokens) const {
    if (tokens.empty()) { return {ErrorCode::kInvalidArgument, "the prompt is empty: there is nothing to run"}; }
    const int n_vocab = file->hparams().n_vocab;
    for (const int32_t token : tokens) {
        if (token < 0 || token >= n_vocab) {
            return {ErrorCode::kInvalidArgument,
                    "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab)};
        }
    }
    return {};
}

// A token behind others, which nobody looks into and after which nothing is evicted, changes little before it has succeeded.
// Where entries leave a window behind it, memory for that may be missing once evidence has been told of it.
Sequence::Reach Session::Impl::reach_of(std::span<const int32_t> tokens, const RunHooks & hooks) const {
    const bool plain =
        tokens.size() == 1 && seq.n_tokens > 0 && !keeps_whole_way_back && !hooks.on_logits && !hooks.progress && !gating;
    if (!plain) { return Sequence::Reach::kAll; }
    const int64_t n_lanes = shape().n_lanes();
    const bool may_evict = evicts() && seq.plan->is_due(seq.n_tokens + 1, seq.since_eviction + 1) &&
                           seq.cache->n_entries() + n_lanes > seq.plan->budget * n_lanes;
    if (may_evict || !forward->can_run_tokens(*seq.cache, seq.evidence) || seq.gate_state.hides_any() ||
        seq.trims(seq.n_tokens + 1)) {
        return Sequence::Reach::kAll;
    }
    return Sequence::Reach::kOneToken;
}

Status Session::Impl::feed(std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks) {
    PITH_RETURN_IF_ERROR(check_tokens(tokens));
    const auto n = static_cast<int64_t>(tokens.size());
    if (hooks.n_question < 0 || hooks.n_question > n) {
        return {ErrorCode::kInvalidArgument, "RunHooks::n_question is " + std::to_string(hooks.n_question) +
                                                 " of a prompt of " + std::to_string(n) + " tokens: give 0 to all of them"};
    }
    const bool first = seq.n_tokens == 0;
    const CancelScope cancelling(*forward, hooks.cancel);
    const Status status = guarded([&]() -> Status {
        PITH_RETURN_IF_ERROR(begin_call(tokens, is_prompt, hooks));
        return first && seq.plan->one_shot ? prefill_one_shot(tokens, hooks) : prefill_chunks(tokens, hooks, first);
    });
    end_call(status);
    return status;
}

// Opens the transaction, and settles what the tokens need: for a first prompt all that is decided when it is known.
// Whatever it returns or throws, end_call() follows.
Status Session::Impl::begin_call(std::span<const int32_t> tokens, bool is_prompt, const RunHooks & hooks) {
    const auto n = static_cast<int64_t>(tokens.size());
    if (seq.n_tokens + n > kMostSequenceTokens) {
        return {ErrorCode::kInvalidArgument, "a sequence holds at most " + with_commas(kMostSequenceTokens) + " tokens, " +
                                                 with_commas(seq.n_tokens) + " were read, and " + with_commas(n) +
                                                 " are to come: begin a new one"};
    }
    const bool first = seq.n_tokens == 0;
    gating = !first && is_prompt && gates_prompt(first);
    const bool behind_others = seq.disposable && is_prompt && !first;
    const Sequence::Reach reach = behind_others ? Sequence::Reach::kAnew : reach_of(tokens, hooks);
    // A token alone counts nothing before it has succeeded.
    if (reach != Sequence::Reach::kOneToken) { ledger_before = ledger; }
    seq.begin(reach);
    seq.tokens.append(tokens);
    if (first) {
        PITH_RETURN_IF_ERROR(start(n, observers.empty() ? hooks.n_question : static_cast<int>(observers.size())));
        gating = is_prompt && gates_prompt(first);
    }
    if (seq.plan->capacity > 0 && seq.n_tokens + n > seq.plan->capacity) {
        return {ErrorCode::kBudget, item::kBudget + " auto: the memory that was left holds " + with_commas(seq.plan->capacity) +
                                        " tokens, " + with_commas(seq.n_tokens) + " are there, and policy " +
                                        seq.policy.name() + " keeps them all: give a " + item::kBudget +
                                        " in numbers to evict"};
    }
    return {};
}

// Commits, or takes all back.
void Session::Impl::end_call(const Status & status) noexcept {
    end_gating();
    if (status.ok()) {
        see_evidence_peak();
        seq.commit();
        seq.logits.swap(next_logits);
    } else {
        update_ledger();  // peaks, while they can be seen
        seq.rollback();
        if (ledger_before) { forget_call(std::move(*ledger_before)); }
    }
    ledger_before.reset();
}

// What a failed call took and took up stays in the ledger, what it did to the sequence does not.
void Session::Impl::forget_call(Ledger before) noexcept {
    const Ledger spent = std::exchange(ledger, std::move(before));
    ledger.kv_peak_bytes = spent.kv_peak_bytes;
    ledger.evidence_peak_bytes = spent.evidence_peak_bytes;
    ledger.activation_peak_bytes = spent.activation_peak_bytes;
    ledger.gate_peak_bytes = spent.gate_peak_bytes;
    ledger.evidence_s = spent.evidence_s;
    ledger.plan_s = spent.plan_s;
    ledger.compact_s = spent.compact_s;
    ledger.gate_s = spent.gate_s;
    ledger.reread_s = spent.reread_s;
    std::vector<float>().swap(hidden);  // of a whole prompt, perhaps
}

Status Session::Impl::prefill_one_shot(std::span<const int32_t> tokens, const RunHooks & hooks) {
    OneShotReader reader(*this, tokens, hooks);
    while (!reader.done()) {
        if (cancelled(hooks)) { return cancelled_status(reader.n_done()); }
        PITH_RETURN_IF_ERROR(with_progress(reader.advance(), reader.n_done()));
        if (hooks.progress) { hooks.progress(reader.n_done(), std::ssize(tokens)); }
    }
    return {};
}

Status Session::Impl::prefill_chunks(std::span<const int32_t> tokens, const RunHooks & hooks, bool first) {
    ChunkReader reader(*this, tokens, first);
    while (!reader.done()) {
        if (cancelled(hooks)) { return cancelled_status(reader.n_done()); }
        const auto chunk = reader.next(std::ssize(tokens));
        const bool is_last = reader.n_done() + std::ssize(chunk) == std::ssize(tokens);
        PITH_RETURN_IF_ERROR(with_progress(run_chunk(chunk, hooks, is_last), reader.n_done()));
        const bool nothing_follows = !hooks.progress;  // a hook may throw
        PITH_RETURN_IF_ERROR(with_progress(reader.advance(std::ssize(chunk), nothing_follows), reader.n_done()));
        if (hooks.progress) { hooks.progress(reader.n_done(), std::ssize(tokens)); }
    }
    return {};
}

// is_last: of the call. Only its logits will be asked for, where nobody is shown all.
Status Session::Impl::run_chunk(std::span<const int32_t> tokens, const RunHooks & hooks, bool is_last) {
    const auto n = static_cast<int>(tokens.size());
    const auto width = static_cast<size_t>(file->hparams().n_embd);
    if (n == 1 && !gating && !hooks.on_logits && forward->can_run_tokens(*seq.cache, seq.evidence)) {
        for (int layer = 0; gates && layer < n_layers(); ++layer) {
            PITH_RETURN_IF_ERROR(drop_hidden(layer, static_cast<int32_t>(seq.n_tokens)));
        }
        next_logits.resize(static_cast<size_t>(file->hparams().n_vocab));
        const BatchPart part{.cache = seq.cache.get(),
                             .evidence = &seq.evidence,
                             .n = 1,
                             .first_position = static_cast<int32_t>(seq.n_tokens),
                             .states = &seq.states};
        const std::span<float> row = next_logits;
        PITH_RETURN_IF_ERROR(forward->run_tokens(std::span(&part, 1), tokens, std::span(&row, 1)));
        ++seq.n_tokens;
        return {};
    }
    const auto first_position = static_cast<int32_t>(seq.n_tokens);
    PITH_RETURN_IF_ERROR(run_layers(tokens, static_cast<bool>(hooks.on_logits)));
    if (!is_last && !hooks.on_logits) { return {}; }
    return emit_logits(std::span(hidden).first(static_cast<size_t>(n) * width), n, first_position, hooks);
}

// Tokens through all layers, into the lanes. `hidden` then holds the last layer's states: all, or the newest in front.
Status Session::Impl::run_layers(std::span<const int32_t> tokens, bool all_states) {
    const auto n = static_cast<int>(tokens.size());
    const size_t n_floats = tokens.size() * static_cast<size_t>(file->hparams().n_embd);
    if (hidden.size() < n_floats) { hidden.resize(n_floats); }
    const auto first_position = static_cast<int32_t>(seq.n_tokens);
    for (int layer = 0; layer < n_layers(); ++layer) {
        const int n_out = layer + 1 == n_layers() && !all_states ? 1 : n;
        PITH_RETURN_IF_ERROR(ask_gates(layer, {tokens, hidden, n}, first_position));
        PITH_RETURN_IF_ERROR(run_layer(layer, tokens, hidden, n, first_position, n_out));
    }
    seq.n_tokens += n;
    return {};
}

// states [n][D] hold the last layer's output: all rows when every position's logits are wanted, else the newest in front.
Status Session::Impl::emit_logits(std::span<const float> states, int n, int64_t first_position, const RunHooks & hooks) {
    const auto width = static_cast<size_t>(file->hparams().n_embd);
    const auto n_vocab = static_cast<size_t>(file->hparams().n_vocab);
    if (!hooks.on_logits) {
        next_logits.resize(n_vocab);
        PITH_RETURN_IF_ERROR(forward->run_head(states.first(width), 1, next_logits));
        return check_logits(next_logits);
    }
    std::vector<float> rows;
    for (int first = 0; first < n; first += kLogitRows) {
        const int m = std::min(kLogitRows, n - first);
        rows.resize(static_cast<size_t>(m) * n_vocab);
        PITH_RETURN_IF_ERROR(
            forward->run_head(states.subspan(static_cast<size_t>(first) * width, static_cast<size_t>(m) * width), m, rows));
        PITH_RETURN_IF_ERROR(check_logits(rows));
        for (int i = 0; i < m; ++i) {
            hooks.on_logits(first_position + first + i, std::span(rows).subspan(static_cast<size_t>(i) * n_vocab, n_vocab));
        }
        next_logits.assign(rows.end() - static_cast<int64_t>(n_vocab), rows.end());
    }
    return {};
}

}  // namespace pith
