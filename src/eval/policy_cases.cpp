// policy_cases.cpp - lists of policies, and one prefill for all of them. Stage: eval.
#include "eval/policy_cases.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "core/text.h"
#include "engine/head_importance_file.h"
#include "policy/policy.h"
#include "policy/registry.h"

namespace pith {
namespace {

constexpr std::string_view kAll = "all";

// Adds a policy that can be composed, once, and not under two names.
class PolicyList {
public:
    explicit PolicyList(bool with_importance) : with_importance_(with_importance) {}
    void add(const std::string & name) {
        const auto policy = Policy::parse(name);
        if (!policy.ok() || (policy->wants_importance() && !with_importance_)) { return; }
        const bool known = std::any_of(aliases().begin(), aliases().end(), [&](const Alias & a) { return a.meaning == name; });
        if (!known && std::find(names_.begin(), names_.end(), name) == names_.end()) { names_.push_back(name); }
    }
    std::vector<std::string> take() { return std::move(names_); }

private:
    bool with_importance_;
    std::vector<std::string> names_;
};

}  // namespace

std::vector<std::string> all_policies(bool with_importance) {
    PolicyList list(with_importance);
    for (const ScorerInfo & scorer : scorers()) { list.add(std::string(scorer.name)); }
    for (const char * base : {"h2o", "tova", "snapkv"}) {
        for (const RefinerInfo & refiner : refiners()) { list.add(base + ("+" + std::string(refiner.name))); }
    }
    for (const AllocatorInfo & allocator : allocators().subspan(1)) { list.add("snapkv+" + std::string(allocator.name)); }
    for (const SelectorInfo & selector : selectors().subspan(1)) { list.add("snapkv+" + std::string(selector.name)); }
    for (const Alias & alias : aliases()) { list.add(std::string(alias.name)); }
    return list.take();
}

Result<std::vector<std::string>> policies_of_list(std::string_view list, bool with_importance) {
    std::vector<std::string> names;
    for (const std::string_view piece : split(list, ',')) {
        if (trim(piece) == kAll) {
            std::vector<std::string> all = all_policies(with_importance);
            std::move(all.begin(), all.end(), std::back_inserter(names));
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(piece));
        names.push_back(policy.name());
    }
    return names;
}

bool has_importance(const std::string & heads_file, const std::string & model_path) {
    std::error_code error;
    return !heads_file.empty() || std::filesystem::exists(default_heads_path(model_path), error);
}

Result<std::vector<PolicyCase>> make_cases(const std::vector<std::string> & policies, const std::vector<Budget> & budgets) {
    std::vector<PolicyCase> cases;
    std::vector<std::string> evicting;
    for (const std::string & name : policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(name));
        if (!policy.evicts()) {
            cases.push_back({name, Budget()});
        } else if (budgets.empty()) {
            return Status(ErrorCode::kInvalidArgument, "policy '" + name + "' needs a budget: add --budget");
        } else {
            evicting.push_back(name);
        }
    }
    for (const Budget & budget : budgets) {
        for (const std::string & name : evicting) { cases.push_back({name, budget}); }
    }
    return cases;
}

Status for_each_case(const Model & model, const SessionOptions & options, std::span<const int32_t> prompt,
                     const std::vector<PolicyCase> & cases, const RunHooks & hooks, const VisitCase & visit,
                     const WantCase & wanted) {
    SessionOptions full = options;
    full.policy = "full";
    full.budget = Budget();
    full.observe.clear();
    for (const PolicyCase & one : cases) {
        const bool known = std::find(full.observe.begin(), full.observe.end(), one.policy) != full.observe.end();
        if (!known) { full.observe.push_back(one.policy); }
    }
    PITH_ASSIGN_OR_RETURN(Session session, model.session(full));
    PITH_RETURN_IF_ERROR(session.prefill(prompt, hooks));
    PITH_ASSIGN_OR_RETURN(const std::shared_ptr<Session::Snapshot> start, session.snapshot());
    bool used = false;
    for (size_t i = 0; i < cases.size(); ++i) {
        if (wanted && !wanted(i)) { continue; }
        if (hooks.cancel != nullptr && hooks.cancel->load()) { return {ErrorCode::kCancelled, "cancelled"}; }
        if (used) { PITH_RETURN_IF_ERROR(session.restore(start)); }
        used = true;
        const Status ran = session.evict(cases[i].policy, cases[i].budget);
        if (!ran.ok() && ran.code() != ErrorCode::kBudget) { return ran; }
        PITH_RETURN_IF_ERROR(visit(i, session, ran));
    }
    return {};
}

}  // namespace pith
