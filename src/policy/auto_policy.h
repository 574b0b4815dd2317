// auto_policy.h - `auto`: the policy of whoever named none, chosen by what is known of the session. Stage: set-up.
// Pure C++: no ggml, no I/O.
//
// The choice is made when the first prompt comes, before anything of it is read. From then on the session is, bit for bit, one
// that was made with the chosen name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "pith/policy_choice.h"
#include "pith/status.h"
#include "policy/policy.h"

namespace pith {

inline constexpr std::string_view kAutoPolicy = "auto";  // it takes no parts and no options

// Head importances of the model, for policies that divide the budget by head.
enum class KnownHeads {
    kNone,
    kGiven,        // by the session's options
    kBesideModel,  // in the file beside the model
    kUnfit,        // the file beside the model is damaged, or another model's: it is not used
    kShipped,      // those that come with Pith for this model
    kOthers,  // those that come with Pith are for other weights of this shape, or for the model without its adapter: not used
};

enum class KnownQuestion {
    kUnknown,     // nobody said what will be asked
    kInSight,     // all that is evicted of the prompt is judged by the question
    kOutOfSight,  // it is known, but longer than the chunks that the prompt is read in
};

struct AutoFacts {
    bool limited = false;  // there is a budget, and it may not hold all that comes
    KnownGates gates = KnownGates::kNone;
    KnownHeads heads = KnownHeads::kNone;
    KnownQuestion question = KnownQuestion::kUnknown;
    bool roomy = false;       // not limited, because the budget, what memory allows, holds all that can come
    bool even = false;        // every head must hold the same: addresses are limited, and lanes that grow want them twice
    bool may_reread = false;  // the text may be read a second time, where nobody knows what will be asked
};

struct AutoChoice {
    Policy policy;
    std::string reason;  // in a user's words: "the question is in sight"; empty: `auto` did not choose it
};

// A budget in numbers that holds the whole prompt gets an evicting policy, too: the prompt is not the end, and an answer grows.
AutoChoice choose_policy(const AutoFacts & facts);

// The policy that was chosen, or what `auto` is by these facts.   Errors: those of PolicyChoice::check().
Result<Policy> policy_of(const PolicyChoice & choice, const AutoFacts & facts);

// Whether a session of this policy reads its text again, or `auto`, by its own choice, may. false: it is no policy.
bool may_read_again(const PolicyChoice & choice, bool auto_may);

// One line for whoever names policies where the question comes later: which of them judge by the newest tokens, which will not
// be the question, and what fits. Empty: all of them do, or evict nothing. facts: of the model; what is known of the question
// is left out. Errors: those of PolicyChoice::check().
Result<std::string> unseen_question_text(std::span<const PolicyChoice> policies, AutoFacts facts);

// All that may be chosen under a budget in numbers. may_reread: as in AutoFacts.
std::span<const Policy> auto_candidates(bool may_reread);

// `full`, what it chooses without a budget.
const Policy & policy_that_keeps_all();

// One line for the list of policies.
std::string auto_help();

}  // namespace pith
