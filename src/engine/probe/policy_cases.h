// policy_cases.h - many policies and budgets on one text: which, and how they share one prefill. Stage: probe.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/budget.h"
#include "pith/model.h"
#include "pith/policy_choice.h"
#include "pith/session.h"

namespace pith {

struct PolicyCase {
    PolicyChoice policy;
    Budget budget;  // kNone: nothing is evicted
};

// Policies under all budgets, rows of one budget side by side; what evicts nothing stands once, in front. `auto` evicts: here
// it always has a budget. Errors: kInvalidArgument: a policy that is none, or one that evicts without a budget.
Result<std::vector<PolicyCase>> make_cases(const std::vector<PolicyChoice> & policies, const std::vector<Budget> & budgets);

// What of the policies that need the model's gates `all` stands for.
enum class GatePolicies {
    kNone,    // there are no gates
    kScorer,  // gates score: one prefill serves these along with others
    kAll,     // `gated` as well
};

// What `all` stands for: every scorer by itself, the refiners over h2o, tova and snapkv, every other part over snapkv, every
// alias. with_importance: those too that divide the budget by head (they need a file of head importances).
std::vector<PolicyChoice> all_policies(bool with_importance, GatePolicies gates = GatePolicies::kNone);

// The policies of a list separated by ',', in which `all` stands for all_policies().
// Errors: kInvalidArgument: a policy that is none, or one that gates of this kind do not serve.
Result<std::vector<PolicyChoice>> policies_of_list(std::string_view list, bool with_importance,
                                                   GatePolicies gates = GatePolicies::kNone);

// Head importances can be found: in heads_file, beside the model, or, where it has no adapter, with Pith.
bool has_importance(const std::string & heads_file, const std::string & model_path, bool is_adapted);

// One prefill for all cases that it can become; `gated` ones have one of their own.
struct SharedPrefill {
    SessionOptions full;       // nothing is evicted, and the evidence of all of them is gathered
    std::vector<bool> serves;  // [case]
};
Result<SharedPrefill> share_prefill(const Model & model, const SessionOptions & options, const std::vector<PolicyCase> & cases);

// Prefills `prompt` once, without evicting, then calls `visit` for each case with a session that stands where one of this
// policy and budget would stand after a one-shot prefill (Session::evict()). Policies that are `gated` change what the prompt's
// own queries see: each has a prefill of its own. ran: ok, or kBudget when the budget does not
// hold what the policy protects; any other error ends the walk, and so does what `visit` returns.
// wanted: cases it says no to are passed over; their evidence is gathered all the same, so that the others see what they would
// see in a walk through all. read: in place of Session::prefill(), of the options that the session was made with.
using VisitCase = std::function<Status(size_t index, Session & session, const Status & ran)>;
using WantCase = std::function<bool(size_t index)>;
using ReadPrompt = std::function<Status(Session & session, const SessionOptions & options)>;
Status for_each_case(const Model & model, const SessionOptions & options, std::span<const int32_t> prompt,
                     const std::vector<PolicyCase> & cases, const RunHooks & hooks, const VisitCase & visit,
                     const WantCase & wanted = {}, const ReadPrompt & read = {});

}  // namespace pith
