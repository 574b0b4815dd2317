// session_plan.cpp - a session's facts, put before plan_run(). Stage: engine.
#include "engine/settle/session_plan.h"

#include <algorithm>
#include <string>

#include "core/log_once.h"
#include "core/text.h"
#include "device/available_memory.h"
#include "engine/settle/auto.h"
#include "engine/settle/memory.h"
#include "plan/budget_check.h"
#include "plan/lane_bytes.h"
#include "plan/protected_tokens.h"

namespace pith {
namespace {

// Tokens that stand in front of a piece that is read again, at most.
int n_around_reread(const RereadPrompt & prompt) {
    const size_t in_front = std::max(prompt.first.size(), prompt.next.size() + (prompt.next.empty() ? 0 : kRereadHint));
    return static_cast<int>(in_front + prompt.behind.size());
}

// Whether `auto` can do without evicting: the budget is what memory allows, and that holds the prompt and all that the model,
// or the session's context, takes.
bool memory_holds_all(const LiveSession & session, int64_t n_prompt) {
    const Sequence & seq = session.seq;
    if (!seq.policy_asked.is_auto() || seq.budget.kind != BudgetKind::kAuto) { return false; }
    const int64_t given = session.options.max_context;
    const int64_t context = given > 0 ? given : session.file->hparams().n_ctx_train;
    return make_plan(session, policy_that_keeps_all(), seq.budget, PrefillSchedule::kAuto, std::max(n_prompt, context)).ok();
}

// Where bytes do not hold all that a prompt should look back at.
void tell_of_little_room(const LiveSession & session, int64_t n_prompt) {
    const RunPlan & plan = *session.seq.plan;
    if (!session.options.look_back || plan.budget == 0 || n_prompt - plan.budget <= plan.most_back) { return; }
    log_once(LogLevel::kWarning, "looking back: the budget has room for " + with_commas(plan.most_back) +
                                     " evicted entries of a head, so prompts see no more than the newest so many of what was "
                                     "evicted (said once)");
}

}  // namespace

Status check_tokens(const ModelFile & file, std::span<const int32_t> tokens) {
    if (tokens.empty()) { return {ErrorCode::kInvalidArgument, "the prompt is empty: there is nothing to run"}; }
    const int n_vocab = file.hparams().n_vocab;
    for (const int32_t token : tokens) {
        if (token < 0 || token >= n_vocab) {
            return {ErrorCode::kInvalidArgument,
                    "token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab)};
        }
    }
    return {};
}

bool can_turn(const LiveSession & session) {
    const Hparams & hp = session.file->hparams();
    if (!session.options.context_shift || hp.n_ctx_train <= 0) { return false; }
    for (int l = 0; l < hp.n_layers; ++l) {
        if (hp.layer(l).has_keys() && hp.layer(l).rotates) { return true; }
    }
    return false;
}

Result<RunPlan> make_plan(const LiveSession & session, const Policy & policy, const Budget & budget, PrefillSchedule schedule,
                          int64_t n_prompt, int n_question) {
    const SessionOptions & options = session.options;
    RunRequest request;
    request.budget = budget;
    if (budget.kind == BudgetKind::kAuto) {
        // Snapshots copy what an eviction moves: nothing, where none is.
        PITH_ASSIGN_OR_RETURN(request.budget, memory_budget(session, policy.evicts() ? options.n_snapshots : 0));
    }
    request.is_auto = budget.kind == BudgetKind::kAuto;
    request.evicts = policy.evicts();
    request.gated = policy.gated();
    request.whole_prompt = session.gates && session.gates->need_whole_prompt(policy, session.observed);
    request.prefill = schedule;
    request.chunk = options.chunk;
    request.evict_every = options.evict_every;
    request.grid = options.grid;
    request.n_prompt = n_prompt;
    if (policy.evicts() && can_turn(session)) { request.n_before_turn = session.file->hparams().n_ctx_train; }
    // Gates decide what is cached before a layer's attention: observers that are taken back again have no place there.
    request.n_question = policy.gated() ? 0 : n_question;
    request.taken_back = !session.observers.empty();
    request.free_bytes = n_question > 0 ? available_memory() : 0;
    if (const size_t addresses = n_question > 0 ? available_addresses() : 0; addresses > 0) {
        const auto chunk = static_cast<size_t>(chunk_bytes(session));
        request.free_addresses = addresses > chunk ? addresses - chunk : 1;
    }
    const bool for_others = !policy.evicts() && std::ranges::any_of(session.observed, &EvidenceNeeds::reread_max);
    request.rereads = policy.rereads() || for_others;
    request.n_reread_prompt = n_around_reread(options.reread);
    request.state_bytes = static_cast<size_t>(session.file->hparams().n_embd) * sizeof(float);
    put_lanes(session.layout, request);
    if (policy.evicts() && options.look_back) {
        request.n_back = std::max(1, options.max_context > 0 ? options.max_context : session.file->hparams().n_ctx_train);
    }
    if (policy.evicts()) {
        const int64_t n_most = n_served(options, n_prompt);
        request.n_protected = least_budget(policy, options.pinned, n_most).value_or(n_most);
    }
    return plan_run(request);
}

Status decide_plan(LiveSession & session, int64_t n_prompt, int n_question) {
    Sequence & seq = session.seq;
    AutoFacts facts;
    facts.gates = known_gates(session);
    facts.may_reread = session.options.auto_may_reread && n_question == 0;  // all that a question may bring is planned alike
    facts.roomy = memory_holds_all(session, n_prompt + std::ssize(session.observers));
    facts.even = seq.budget.kind == BudgetKind::kAuto && available_addresses() > 0;
    settle_policy(seq, session.known_heads, facts);
    if (session.given_plan) {
        seq.plan = session.given_plan;
    } else {
        PITH_ASSIGN_OR_RETURN(seq.plan,
                              make_plan(session, seq.policy, seq.budget, session.options.prefill, n_prompt, n_question));
    }
    tell_of_little_room(session, n_prompt);
    // All that `auto` may choose from here on is planned alike, so the plan can be asked what will be in sight.
    facts.question = n_question == 0          ? KnownQuestion::kUnknown
                     : is_in_sight(*seq.plan) ? KnownQuestion::kInSight
                                              : KnownQuestion::kOutOfSight;
    settle_policy(seq, session.known_heads, facts);
    return check_prompt(session.options, seq.policy, seq.budget, *seq.plan, n_prompt);
}

}  // namespace pith
