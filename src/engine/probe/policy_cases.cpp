// policy_cases.cpp - lists of policies, and one prefill for all of them. Stage: probe.
#include "engine/probe/policy_cases.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/items.h"
#include "core/text.h"
#include "engine/parts/find_heads.h"
#include "engine/parts/model_parts.h"
#include "model/head_importance_file.h"
#include "pith/policies.h"
#include "policy/auto_policy.h"
#include "policy/named_policy.h"
#include "policy/policy.h"
#include "policy/registry.h"

namespace pith {
namespace {

constexpr std::string_view kAll = "all";

// Adds a policy that can be composed, once, and not under two names.
class PolicyList {
public:
    PolicyList(bool with_importance, bool with_gates) : with_importance_(with_importance), with_gates_(with_gates) {}
    void add(const std::string & name) {
        const PolicyChoice choice(name);
        const auto policy = named_policy(choice);
        if (!policy.ok() || (policy->wants_importance() && !with_importance_)) { return; }
        if (policy->needs_gate() && !with_gates_) { return; }
        const bool known = std::any_of(aliases().begin(), aliases().end(), [&](const Alias & a) { return a.meaning == name; });
        if (!known && std::find(choices_.begin(), choices_.end(), choice) == choices_.end()) { choices_.push_back(choice); }
    }
    std::vector<PolicyChoice> take() { return std::move(choices_); }

private:
    bool with_importance_;
    bool with_gates_;
    std::vector<PolicyChoice> choices_;
};

// Gates decide what the prompt's own queries see; `auto` is gated where the model has some.
Result<bool> is_gated(const Model & model, const PolicyCase & one) {
    PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(one.policy, {.limited = true, .gates = known_gates(model)}));
    return policy.gated();
}

}  // namespace

std::vector<PolicyChoice> all_policies(bool with_importance, GatePolicies gates) {
    PolicyList list(with_importance, gates != GatePolicies::kNone);
    for (const AdmissionInfo & admission : admissions()) {
        if (gates == GatePolicies::kAll) { list.add(std::string(admission.name)); }
    }
    for (const ScorerInfo & scorer : scorers()) { list.add(std::string(scorer.name)); }
    for (const char * base : {"h2o", "tova", "snapkv"}) {
        for (const RefinerInfo & refiner : refiners()) { list.add(base + ("+" + std::string(refiner.name))); }
    }
    for (const AllocatorInfo & allocator : allocators().subspan(1)) {
        const std::string on_snapkv = "snapkv+" + std::string(allocator.name);
        list.add(check_policy(on_snapkv).ok() ? on_snapkv : "gate+" + std::string(allocator.name));
    }
    for (const SelectorInfo & selector : selectors().subspan(1)) { list.add("snapkv+" + std::string(selector.name)); }
    for (const Alias & alias : aliases()) { list.add(std::string(alias.name)); }
    return list.take();
}

Result<std::vector<PolicyChoice>> policies_of_list(std::string_view list, bool with_importance, GatePolicies gates) {
    std::vector<PolicyChoice> choices;
    for (const std::string_view piece : split(list, ',')) {
        if (trim(piece) == kAll) {
            std::vector<PolicyChoice> all = all_policies(with_importance, gates);
            std::move(all.begin(), all.end(), std::back_inserter(choices));
            continue;
        }
        PolicyChoice choice(piece);
        if (choice.is_auto()) {
            choices.push_back(std::move(choice));
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        // Those that rank may lie beside the model, which is not read yet.
        const bool none = policy.gated() && gates == GatePolicies::kNone;
        PITH_RETURN_IF_ERROR(policy.check_gates(none ? KnownGates::kNone : KnownGates::kThreshold));
        if (policy.gated() && gates == GatePolicies::kScorer) {
            return {ErrorCode::kInvalidArgument,
                    "policy '" + policy.name() +
                        "' cannot be compared on a prefill that others share: its gates decide "
                        "what the prompt's own queries see; use the scorer `gate` here, or `pith eval`"};
        }
        choices.push_back(std::move(choice));
    }
    return choices;
}

bool has_importance(const std::string & heads_file, const std::string & model_path, bool is_adapted) {
    if (!heads_file.empty()) { return heads_file != kNoHeads; }
    std::error_code error;
    if (std::filesystem::exists(default_heads_path(model_path), error)) { return true; }
    if (is_adapted) { return false; }
    const auto file = ModelFile::check(model_path);
    return file.ok() && match_shipped_heads(**file).kind == ShippedMatch::Kind::kSame;
}

Result<std::vector<PolicyCase>> make_cases(const std::vector<PolicyChoice> & policies, const std::vector<Budget> & budgets) {
    std::vector<PolicyCase> cases;
    std::vector<PolicyChoice> evicting;
    for (const PolicyChoice & choice : policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(choice, {.limited = true}));
        if (!policy.evicts()) {
            cases.push_back({choice, Budget()});
        } else if (budgets.empty()) {
            return Status(ErrorCode::kInvalidArgument, "policy '" + choice.name() + "' needs a budget: add " + item::kBudget);
        } else {
            evicting.push_back(choice);
        }
    }
    for (const Budget & budget : budgets) {
        for (const PolicyChoice & choice : evicting) { cases.push_back({choice, budget}); }
    }
    return cases;
}

Result<SharedPrefill> share_prefill(const Model & model, const SessionOptions & options,
                                    const std::vector<PolicyCase> & cases) {
    SharedPrefill shared{options, {}};
    shared.full.policy = "full";
    shared.full.budget = Budget();
    std::vector<PolicyChoice> & observed = shared.full.observe;
    observed.clear();
    for (const PolicyCase & one : cases) {
        PITH_ASSIGN_OR_RETURN(const bool gated, is_gated(model, one));
        shared.serves.push_back(!gated);
        const bool known = std::find(observed.begin(), observed.end(), one.policy) != observed.end();
        if (!gated && !known) { observed.push_back(one.policy); }
    }
    return shared;
}

Status for_each_case(const Model & model, const SessionOptions & options, std::span<const int32_t> prompt,
                     const std::vector<PolicyCase> & cases, const RunHooks & hooks, const VisitCase & visit,
                     const WantCase & wanted, const ReadPrompt & read) {
    const auto read_prompt = [&](Session & session, const SessionOptions & of) {
        return read ? read(session, of) : session.prefill(prompt, hooks);
    };
    PITH_ASSIGN_OR_RETURN(const SharedPrefill prefill, share_prefill(model, options, cases));
    const auto is_wanted = [&](size_t i) { return !wanted || wanted(i); };
    const auto visited = [&](size_t i, Session & session, const Status & ran) {
        return !ran.ok() && ran.code() != ErrorCode::kBudget ? ran : visit(i, session, ran);
    };
    std::optional<Session> shared;  // made for the first case that it serves
    std::shared_ptr<Session::Snapshot> start;
    for (size_t i = 0; i < cases.size(); ++i) {
        if (!is_wanted(i)) { continue; }
        if (hooks.cancel != nullptr && hooks.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
        if (!prefill.serves[i]) {
            SessionOptions own = options;
            own.policy = cases[i].policy;
            own.budget = cases[i].budget;
            own.prefill = PrefillSchedule::kOneShot;
            own.observe.clear();
            PITH_ASSIGN_OR_RETURN(Session session, model.session(own));
            PITH_RETURN_IF_ERROR(visited(i, session, read_prompt(session, own)));
            continue;
        }
        if (!shared) {
            PITH_ASSIGN_OR_RETURN(shared, model.session(prefill.full));
            PITH_RETURN_IF_ERROR(read_prompt(*shared, prefill.full));
            PITH_ASSIGN_OR_RETURN(start, shared->snapshot());
        } else {
            PITH_RETURN_IF_ERROR(shared->restore(start));
        }
        PITH_RETURN_IF_ERROR(visited(i, *shared, shared->evict(cases[i].policy, cases[i].budget)));
    }
    return {};
}

}  // namespace pith
