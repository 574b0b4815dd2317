// policy.cpp - the policy grammar: parts joined by '+', options after ':', aliases expanded.
#include "policy/policy.h"

#include <algorithm>

#include "core/items.h"
#include "core/text.h"
#include "pith/policies.h"
#include "policy/auto_policy.h"
#include "policy/custom_scorers.h"
#include "policy/registry.h"

namespace pith {
namespace {

constexpr int kDefaultWindow = 32;  // observed where a part wants a window and none says how long

struct PartText {
    std::string_view name;
    std::vector<GivenOption> options;
};

Status bad(std::string_view policy, const std::string & what) {
    return {ErrorCode::kInvalidArgument, "policy " + quoted(policy) + ": " + what};
}

// "name:key=value:…"
Result<PartText> parse_part(std::string_view policy, std::string_view text) {
    const auto pieces = split(text, ':');
    PartText part{trim(pieces[0]), {}};
    if (part.name.empty()) { return bad(policy, "a part is empty: write [gated+]scorer[+refiner][+allocator][+selector]"); }
    for (size_t i = 1; i < pieces.size(); ++i) {
        const size_t equals = pieces[i].find('=');
        const std::string_view key = trim(pieces[i].substr(0, equals));
        if (equals == std::string_view::npos || key.empty()) {
            return bad(policy, quoted(trim(pieces[i])) + " after " + quoted(part.name) + " is not an option: write name=value");
        }
        part.options.emplace_back(key, trim(pieces[i].substr(equals + 1)));
    }
    return part;
}

template <class Part>
const PartInfo<Part> * find_part(std::span<const PartInfo<Part>> parts, std::string_view name) {
    for (const PartInfo<Part> & part : parts) {
        if (part.name == name) { return &part; }
    }
    return nullptr;
}

const Alias * find_alias(std::string_view name) {
    for (const Alias & alias : aliases()) {
        if (alias.name == name) { return &alias; }
    }
    return nullptr;
}

// The option table of a part of any kind.
std::span<const OptionSpec> option_table(std::string_view name) {
    if (const auto * part = find_part<Admission>(admissions(), name)) { return part->options; }
    if (const auto * part = find_part<Scorer>(scorers(), name)) { return part->options; }
    if (const auto * part = find_part<Refiner>(refiners(), name)) { return part->options; }
    if (const auto * part = find_part<Allocator>(allocators(), name)) { return part->options; }
    if (const auto * part = find_part<Selector>(selectors(), name)) { return part->options; }
    return {};
}

Status unknown_part(std::string_view policy, std::string_view name) {
    const std::vector<PolicyInfo> list = list_policies();
    std::vector<std::string_view> names;
    for (const PolicyInfo & info : list) { names.push_back(info.name); }
    std::string message = quoted(name) + " is not known";
    const std::string_view near = nearest(name, names);
    return bad(policy, message + (near.empty() ? "; `pith policies` lists them" : ": did you mean " + quoted(near) + "?"));
}

const OptionSpec * find_option(std::string_view part, std::string_view option) {
    for (const OptionSpec & spec : option_table(part)) {
        if (spec.name == option) { return &spec; }
    }
    return nullptr;
}

// Which of an alias's parts have the option. Where a part would only do as the others do (a window that is "same"), it is
// theirs.
std::vector<PartText *> takers(std::vector<PartText> & parts, std::string_view option) {
    std::vector<PartText *> leaders, followers;
    for (PartText & part : parts) {
        const OptionSpec * spec = find_option(part.name, option);
        if (spec != nullptr) { (spec->default_value == kAsOtherParts ? followers : leaders).push_back(&part); }
    }
    return leaders.empty() ? followers : leaders;
}

// Replaces an alias by its parts; each option goes to the one part that has it.
Status expand(std::string_view policy, const PartText & text, const Alias & alias, std::vector<PartText> & parts) {
    std::vector<PartText> own;
    for (const std::string_view piece : split(alias.meaning, '+')) {
        PITH_ASSIGN_OR_RETURN(PartText part, parse_part(policy, piece));
        own.push_back(std::move(part));
    }
    std::vector<std::string_view> known;
    for (const PartText & part : own) {
        for (const OptionSpec & spec : option_table(part.name)) { known.push_back(spec.name); }
    }
    for (const GivenOption & option : text.options) {
        const std::string called = "option " + quoted(option.first) + " of " + quoted(alias.name) + " ";
        const std::string spelt = quoted(alias.name) + " is " + std::string(alias.meaning);
        const std::vector<PartText *> owners = takers(own, option.first);
        if (owners.size() > 1) { return bad(policy, called + "belongs to two parts: spell it out, " + spelt); }
        if (owners.empty()) {
            const std::string_view near = nearest(option.first, known);
            return bad(policy, called + "is not known: " + (near.empty() ? "" : "did you mean " + quoted(near) + "? ") + spelt +
                                   ", with " + join(known, ", "));
        }
        owners.front()->options.push_back(option);
    }
    parts.insert(parts.end(), own.begin(), own.end());
    return {};
}

Status two_of_a_kind(std::string_view policy, std::string_view taken, std::string_view name, std::string_view kind) {
    return bad(policy, quoted(taken) + " and " + quoted(name) + " are both a" + (kind[0] == 'a' ? "n " : " ") +
                           std::string(kind) + ": keep one");
}

// Makes `slot` when the part is of this kind; `found` says so.
template <class Part>
Status take(std::string_view policy, std::string_view kind, std::span<const PartInfo<Part>> known, const PartText & text,
            std::shared_ptr<const Part> & slot, std::string & taken, bool & found) {
    const PartInfo<Part> * info = find_part<Part>(known, text.name);
    if (info == nullptr) { return {}; }
    found = true;
    if (slot != nullptr) { return two_of_a_kind(policy, taken, text.name, kind); }
    PITH_ASSIGN_OR_RETURN(const Options options, Options::parse(info->name, info->options, text.options));
    if (info->check != nullptr) {
        if (const std::string wrong = info->check(options); !wrong.empty()) { return bad(policy, wrong); }
    }
    taken = info->name;
    slot = info->make(options);
    return {};
}

// The same of a scorer that a user has registered, which has no options.
Status take_custom(std::string_view policy, const PartText & text, std::shared_ptr<const Scorer> & slot, std::string & taken,
                   bool & found) {
    auto scorer = custom_scorer(text.name);
    if (scorer == nullptr) { return {}; }
    found = true;
    if (slot != nullptr) { return two_of_a_kind(policy, taken, text.name, "scorer"); }
    PITH_RETURN_IF_ERROR(Options::parse(text.name, {}, text.options).status());
    taken = text.name;
    slot = std::move(scorer);
    return {};
}

// What a policy's text names, by kind; empty where a kind is left out.
struct TakenNames {
    std::string admission, scorer, refiner, allocator, selector;
};

// Some parts make no sense together: nothing goes with a scorer that keeps all, and nothing that compares scores goes with one
// that knows positions only.
Status check_composition(std::string_view policy, const TakenNames & names, const Scorer & scorer, const Refiner * refiner,
                         const Allocator * allocator, const Selector * selector) {
    const std::string * idle = nullptr;    // a part that has nothing to do
    const std::string * misled = nullptr;  // a part that would read positions as importance
    const auto consider = [&](const std::string & name, bool compares_scores) {
        if (name.empty()) { return; }
        if (idle == nullptr) { idle = &name; }
        if (misled == nullptr && compares_scores) { misled = &name; }
    };
    consider(names.refiner, refiner != nullptr);
    consider(names.allocator, allocator != nullptr && allocator->compares_scores());
    consider(names.selector, selector != nullptr && selector->compares_scores());
    const std::string another = allocator != nullptr && allocator->keeps_less() ? "gate+" : "snapkv+";
    if (!scorer.evicts() && idle != nullptr) {
        return bad(policy, quoted(names.scorer) + " keeps everything, which leaves nothing for " + quoted(*idle) +
                               " to do: write " + names.scorer + " alone, or another scorer, e.g. " + another + *idle);
    }
    if (scorer.by_position() && misled != nullptr) {
        return bad(policy, quoted(names.scorer) + " orders entries by position and does not say how much each matters, which " +
                               quoted(*misled) + " needs to know: use another scorer, e.g. " + another + *misled +
                               ", or leave " + quoted(*misled) + " out");
    }
    if (allocator == nullptr || !allocator->keeps_less()) { return {}; }
    if (refiner != nullptr) {
        return bad(policy, quoted(names.allocator) + " puts a threshold to shares of attention, and " + quoted(names.refiner) +
                               " makes something else of them: leave one of them out");
    }
    if (!scorer.is_absolute()) {
        return bad(policy, quoted(names.allocator) + " needs scores that mean the same in every text, and those of " +
                               quoted(names.scorer) + " only compare entries: use gate or reread, e.g. gate+" +
                               names.allocator);
    }
    return {};
}

}  // namespace

Result<Policy> Policy::parse(std::string_view text) {
    const std::string_view name = trim(text);
    if (name.empty()) {
        return Status(ErrorCode::kInvalidArgument, "the policy is empty: give a name, e.g. snapkv or snapkv+ada");
    }
    std::vector<PartText> parts;
    for (const std::string_view piece : split(name, '+')) {
        PITH_ASSIGN_OR_RETURN(PartText part, parse_part(name, piece));
        if (part.name == kAutoPolicy) {
            return bad(name, name == kAutoPolicy ? "what that is depends on the session: name a policy here, e.g. snapkv"
                                                 : "'auto' chooses a whole policy: it takes no parts and no options");
        }
        if (const Alias * alias = find_alias(part.name)) {
            PITH_RETURN_IF_ERROR(expand(name, part, *alias, parts));
        } else {
            parts.push_back(std::move(part));
        }
    }
    Policy policy;
    policy.name_ = name;
    std::shared_ptr<const Admission> admission;
    TakenNames taken;
    for (const PartText & part : parts) {
        bool found = false;
        PITH_RETURN_IF_ERROR(take<Admission>(name, "admission", admissions(), part, admission, taken.admission, found));
        PITH_RETURN_IF_ERROR(take<Scorer>(name, "scorer", scorers(), part, policy.scorer_, taken.scorer, found));
        PITH_RETURN_IF_ERROR(take<Refiner>(name, "refiner", refiners(), part, policy.refiner_, taken.refiner, found));
        PITH_RETURN_IF_ERROR(take<Allocator>(name, "allocator", allocators(), part, policy.allocator_, taken.allocator, found));
        PITH_RETURN_IF_ERROR(take<Selector>(name, "selector", selectors(), part, policy.selector_, taken.selector, found));
        PITH_RETURN_IF_ERROR(take_custom(name, part, policy.scorer_, taken.scorer, found));
        if (!found) { return unknown_part(name, part.name); }
    }
    policy.gated_ = admission != nullptr;
    const auto defaults = [](const auto & info) { return info.make(Options::parse(info.name, info.options, {}).value()); };
    if (policy.gated_ && parts.size() == 1) { policy.scorer_ = defaults(*find_part<Scorer>(scorers(), "full")); }
    if (policy.scorer_ == nullptr) {
        return bad(name, "there is no scorer: put one first, e.g. " + std::string(policy.gated_ ? "gated+" : "") + "snapkv+" +
                             std::string(parts.front().name == taken.admission ? parts[1].name : parts.front().name));
    }
    PITH_RETURN_IF_ERROR(check_composition(name, taken, *policy.scorer_, policy.refiner_.get(), policy.allocator_.get(),
                                           policy.selector_.get()));
    if (policy.allocator_ != nullptr) {
        const int of_scorer = policy.scorer_->needs().window;
        const int of_allocator = policy.allocator_->needs().window;
        if (of_scorer > 0 && of_allocator > 0 && of_scorer != of_allocator) {
            return bad(name, quoted(taken.scorer) + " observes the last " + std::to_string(of_scorer) + " queries and " +
                                 quoted(taken.allocator) + " the last " + std::to_string(of_allocator) +
                                 ": a policy has one window, so leave out the option of " + quoted(taken.allocator));
        }
    }
    if (policy.gated_ && policy.scorer_->needs().reread_max) {
        return bad(name, quoted(taken.scorer) +
                             " reads the text again before it evicts, and gates decide before that: leave out " +
                             quoted(taken.admission));
    }
    if (policy.allocator_ == nullptr) { policy.allocator_ = defaults(allocators().front()); }
    if (policy.selector_ == nullptr) { policy.selector_ = defaults(selectors().front()); }
    return policy;
}

bool Policy::evicts() const {
    return scorer_->evicts();
}

EvidenceNeeds Policy::needs() const {
    if (!evicts()) { return {}; }
    EvidenceNeeds needs = scorer_->needs().merged(allocator_->needs()).merged(selector_->needs());
    if (refiner_ != nullptr) { needs = needs.merged(refiner_->needs()); }
    if (needs.any_window() && needs.window == 0) { needs.window = kDefaultWindow; }
    // SCORE samples between the first and the last window of the prompt.
    const bool has_margin = needs.profile.any() && needs.profile.sample != QuerySample::kAny;
    if (has_margin && needs.any_window()) { needs.profile.margin = needs.window; }
    return needs;
}

bool Policy::needs_gate() const {
    return gated_ || needs().retention;
}

Status Policy::check_gates(KnownGates gates) const {
    if (needs_gate() && gates == KnownGates::kNone) {
        return {ErrorCode::kInvalidArgument, "policy '" + name_ + "' needs gates: " + item::kGates +
                                                 " FILE, made by `pith train gate`" +
                                                 (gated_ ? "" : " or `pith calibrate importance`") +
                                                 (keeps_less() ? "; or take the scorer reread, which reads a text twice" : "")};
    }
    if (gated_ && gates == KnownGates::kRank) {
        return {ErrorCode::kInvalidArgument, "policy '" + name_ +
                                                 "' needs gates that were trained to evict, and those given (" + item::kGates +
                                                 ") only rank entries: use policy gate with a budget"};
    }
    return {};
}

bool Policy::judges_by_newest_queries() const {
    const EvidenceNeeds needs = scorer_->needs();
    return needs.any_window() || needs.last_query || needs.running_last > 0;
}

bool Policy::is_custom() const {
    return scorer_->is_custom();
}

bool Policy::wants_importance() const {
    return allocator_->wants_importance();
}

bool Policy::ranks_across_layers() const {
    return allocator_->ranks_across_layers();
}

bool Policy::wants_all_layers() const {
    return allocator_->wants_all_layers();
}

bool Policy::keeps_less() const {
    return allocator_->keeps_less();
}

int Policy::n_sinks() const {
    return scorer_->n_sinks();
}

int Policy::n_recent(int64_t budget) const {
    return scorer_->n_recent(budget);
}

std::string Policy::why_no_choice(int64_t budget) const {
    if (!evicts()) { return ""; }
    const int64_t n_alike = allocator_->n_alike();
    if (n_alike > 0 && budget <= n_alike) {
        return "all heads are alike: each has room for " + std::to_string(n_alike) + " entries, and " + std::to_string(budget) +
               " are kept";
    }
    const int64_t n_protected = int64_t{n_sinks()} + n_recent(budget);
    if (n_protected < budget) { return ""; }
    return "nothing is chosen: " + std::to_string(n_protected) + " entries are protected, and " + std::to_string(budget) +
           " are kept";
}

}  // namespace pith
