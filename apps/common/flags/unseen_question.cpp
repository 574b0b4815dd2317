// unseen_question.cpp - what is known of the model, and the line.
#include "common/flags/unseen_question.h"

#include <cstdio>
#include <utility>

#include "common/base/errors.h"
#include "engine/parts/find_heads.h"
#include "engine/parts/model_parts.h"
#include "policy/auto_policy.h"

namespace pith::app {

namespace {

AutoFacts facts_of(const Model & model, const std::string & heads_file) {
    AutoFacts facts;
    facts.gates = known_gates(model);
    SessionOptions options;
    options.heads_file = heads_file;
    if (const auto known = find_heads_for_auto(heads_of(model), options); known.ok()) { facts.heads = *known; }
    return facts;
}

}  // namespace

void tell_of_second_reading(const Model & model, const SessionOptions & options) {
    AutoFacts facts = facts_of(model, options.heads_file);
    facts.limited = options.budget.kind != BudgetKind::kNone && options.budget.kind != BudgetKind::kAuto;
    facts.may_reread = options.auto_may_reread;
    const auto policy = policy_of(options.policy, facts);
    if (!options.policy.is_auto() || !policy.ok() || !policy->rereads()) { return; }  // who named it knows
    tell_read_twice();
}

void tell_read_twice() {
    std::fputs("pith: the text is read twice, so that it can answer what nobody has asked yet (--effort quick reads it once)\n",
               stderr);
}

void warn_of_unseen_question(std::span<const PolicyChoice> policies, const Model & model, const std::string & heads_file,
                             const std::string & remedy) {
    static bool told = false;
    const auto text = unseen_question_text(policies, facts_of(model, heads_file));
    if (!text.ok() || text->empty() || std::exchange(told, true)) { return; }  // a name that is none is refused elsewhere
    warn(*text + "; or " + remedy);
}

}  // namespace pith::app
