// session_plan.h - what is decided before a prompt is read: its policy, and how many entries may stay after which tokens.
// Stage: engine.
#pragma once

#include <cstdint>
#include <span>

#include "engine/pass/live_session.h"
#include "plan/run_plan.h"

namespace pith {

// Errors: kInvalidArgument: there are none, or one is outside the vocabulary.
Status check_tokens(const ModelFile & file, std::span<const int32_t> tokens);

// Whether keys of the session turn where something is evicted (engine/evict/turn.h): SessionOptions::context_shift is on, and
// some layer rotates.
bool can_turn(const LiveSession & session);

// The plan of a first prompt of so many tokens, the last n_question of which ask; observers count as it says.
// Errors: kBudget, kInvalidArgument, kUnsupported.
Result<RunPlan> make_plan(const LiveSession & session, const Policy & policy, const Budget & budget, PrefillSchedule schedule,
                          int64_t n_prompt, int n_question = 0);

// The first prompt decides policy and plan of the session's sequence. n_question: observers included.
// Errors: those of make_plan(), and of a prompt that the budget cannot serve.
Status decide_plan(LiveSession & session, int64_t n_prompt, int n_question);

// Whether what asks at the prompt's end is seen by the evictions of such a plan.
inline bool is_in_sight(const RunPlan & plan) {
    return plan.one_shot || plan.n_guide > 0;
}

}  // namespace pith
