// auto_policy.cpp - the choices. They stand here and nowhere else: whoever measures better ones changes a name.
#include "policy/auto_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.h"
#include "policy/named_policy.h"

namespace pith {
namespace {

// What does best on real trained models (docs/real.md; scripts/measure_real). Pooling is as wide as the values are long that
// get copied, and over what is before: their ends are lost otherwise.
constexpr std::string_view kInSight = "vmax:pool=avg45:pool_over=before+entropy";  // head importances add nothing to it
constexpr std::string_view kLaterWithHeads = "expected:eps=0.02+head:by=both";
constexpr std::string_view kLater = "keydiff+ada:alpha=0";         // nobody knows what will be asked
constexpr std::string_view kRanked = "gate+global:normalise=off";  // what a second reading would say, foretold
// What a second reading looks up, where time may be spent on it.
constexpr std::string_view kRereadWithHeads = "reread:group=mean+head:by=both";
constexpr std::string_view kReread = "reread:group=mean+global:normalise=off";
constexpr std::string_view kInSightEven = "snapkv";  // the best of those that give all heads as much
constexpr std::string_view kLaterEven = "keydiff";
constexpr std::string_view kGatedInBudget = "gated+snapkv";  // gates are trained for what they keep: their word goes first
constexpr std::string_view kGated = "gated";
constexpr std::string_view kUnlimited = "full";

constexpr size_t kRereading = 2;  // of them, the last
constexpr std::string_view kCandidates[] = {kInSight, kLaterWithHeads, kLater,          kGatedInBudget,
                                            kRanked,  kReread,         kRereadWithHeads};
constexpr std::string_view kOthers[] = {kInSightEven, kLaterEven, kGated, kUnlimited};

std::vector<Policy> parsed(std::span<const std::string_view> names) {
    std::vector<Policy> policies;
    for (const std::string_view name : names) { policies.push_back(Policy::parse(name).value()); }
    return policies;
}

std::span<const Policy> candidates() {
    static const std::vector<Policy> all = parsed(kCandidates);
    return all;
}

// Of a name that stands above.
const Policy & known_policy(std::string_view name) {
    static const std::vector<Policy> others = parsed(kOthers);
    const auto called_so = [name](const Policy & policy) { return policy.name() == name; };
    const auto other = std::ranges::find_if(others, called_so);
    return other != others.end() ? *other : *std::ranges::find_if(candidates(), called_so);
}

}  // namespace

AutoChoice choose_policy(const AutoFacts & facts) {
    const auto chosen = [](std::string_view policy, std::string reason) {
        return AutoChoice{known_policy(policy), std::move(reason)};
    };
    if (facts.gates == KnownGates::kThreshold) {
        return chosen(facts.limited ? kGatedInBudget : kGated, "the model has gates");
    }
    if (!facts.limited) { return chosen(kUnlimited, facts.roomy ? "memory holds the whole context" : "no budget"); }
    if (facts.even) {
        const bool seen = facts.question == KnownQuestion::kInSight;
        return chosen(seen ? kInSightEven : kLaterEven,
                      std::string(seen ? "the question is in sight" : "what will be asked is not known") +
                          "; a limit on virtual memory, so all heads hold the same");
    }
    if (facts.question == KnownQuestion::kInSight) { return chosen(kInSight, "the question is in sight"); }
    const bool has_heads =
        facts.heads == KnownHeads::kGiven || facts.heads == KnownHeads::kBesideModel || facts.heads == KnownHeads::kShipped;
    if (facts.gates == KnownGates::kRank && !(facts.may_reread && has_heads)) {
        return chosen(kRanked, "importance was learnt for the model");
    }
    const std::string_view with_heads = facts.may_reread ? kRereadWithHeads : kLaterWithHeads;
    if (facts.heads == KnownHeads::kGiven) { return chosen(with_heads, "head importances given"); }
    if (facts.heads == KnownHeads::kBesideModel) { return chosen(with_heads, "head importances beside the model"); }
    if (facts.heads == KnownHeads::kShipped) { return chosen(with_heads, "head importances that come with Pith"); }
    const std::string heads = facts.heads == KnownHeads::kUnfit ? "; the head importances beside the model do not fit it"
                              : facts.heads == KnownHeads::kOthers
                                  ? "; the head importances that come with Pith are for another training of the model"
                                  : "";
    const std::string_view later = facts.may_reread ? kReread : kLater;
    const bool too_long = facts.question == KnownQuestion::kOutOfSight;
    return chosen(later, (too_long ? "the question is longer than a chunk" : "what will be asked is not known") + heads);
}

Result<Policy> policy_of(const PolicyChoice & choice, const AutoFacts & facts) {
    return choice.is_auto() ? choose_policy(facts).policy : named_policy(choice);
}

bool may_read_again(const PolicyChoice & choice, bool auto_may) {
    if (choice.is_auto()) { return auto_may; }
    const Result<Policy> named = named_policy(choice);
    return named.ok() && named->rereads();
}

Result<std::string> unseen_question_text(std::span<const PolicyChoice> policies, AutoFacts facts) {
    std::vector<std::string> unfit;
    for (const PolicyChoice & choice : policies) {
        if (choice.is_auto()) { continue; }
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        if (policy.judges_by_newest_queries()) { unfit.push_back(policy.name()); }
    }
    if (unfit.empty()) { return std::string(); }
    facts.limited = true;
    facts.question = KnownQuestion::kUnknown;
    const Policy chosen = choose_policy(facts).policy;
    const std::string fits = chosen.judges_by_newest_queries() ? std::string(kLater) : chosen.name() + ", which auto chooses,";
    const bool one = unfit.size() == 1;
    return (one ? "policy " : "policies ") + join(unfit, ", ") + (one ? " judges" : " judge") +
           " by the newest tokens, which will not be the question: " + fits + " fits";
}

std::span<const Policy> auto_candidates(bool may_reread) {
    const std::span<const Policy> all = candidates();
    return may_reread ? all : all.first(all.size() - kRereading);
}

const Policy & policy_that_keeps_all() {
    return known_policy(kUnlimited);
}

std::string auto_help() {
    const auto name = [](std::string_view policy) { return std::string(policy); };
    return "chosen when the prompt comes, and said with the reason: " + name(kInSight) + " with the question in sight, " +
           name(kLaterWithHeads) + " without it and with head importances, " + name(kLater) +
           " without either; in `pith compress` " + name(kRereadWithHeads) + " or " + name(kReread) +
           ", which read a text twice; " + name(kRanked) + " with what `pith calibrate importance` learnt; " +
           name(kGatedInBudget) + " or " + name(kGated) + " with gates; " + name(kUnlimited) +
           " without a budget, and with budget auto where memory holds the whole context";
}

}  // namespace pith
