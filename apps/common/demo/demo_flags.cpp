// demo_flags.cpp - what `pith demo` is asked for.
#include "common/demo/demo_flags.h"

#include "common/options/options.h"
#include "engine/probe/policy_cases.h"

namespace pith::app {

void DemoFlags::add_to(CLI::App & command) {
    model.add_to(command, false);
    add(command, option("--budget"), budgets, "Budgets to compare")->delimiter(',')->capture_default_str();
    add(command, option("--policy"), policies, "Policies to compare, separated by ','; all: every one there is, with --share");
    add_heads_option(command, heads);
    command.add_option("--task", tasks, "Kinds of questions: single, multikey, multivalue, vt, cwe, facts")->delimiter(',');
    command.add_option("--samples", n_samples, "Texts");
    add(command, option("--tokens"), n_tokens, "Length of a text")->capture_default_str();
    add(command, option("--threads"), n_threads);
    add(command, option("--seed"), seed, "Seed of the texts")->capture_default_str();
    command.add_flag("--question-aware", question_aware,
                     "Only with the question in sight of the policies (default: that, and --context-only beside it)");
    command.add_flag("--context-only", context_only, "Only with the text compressed before the question is known");
    command.add_flag("--share", share,
                     "One prefill of each text for all policies and budgets: quicker, the same answers, no prefill speed");
    command.add_flag("--perplexity", perplexity, "Instead of questions: how well the rest of a held-out text is predicted");
    add(command, option("--json"), json);
    command.add_flag("--csv", csv, "A line of comma-separated values for each row");
}

std::vector<bool> DemoFlags::settings() const {
    if (question_aware == context_only) { return {true, false}; }
    return {question_aware};
}

Result<DemoOptions> DemoFlags::options() const {
    DemoOptions options;
    options.budgets.clear();
    for (const std::string & text : budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    const bool has_gates = !model.gate.empty();
    if (has_gates) { options.policies = {"gated"}; }
    if (!policies.empty()) {
        const bool with_importance = has_importance(heads, model.path, model.is_adapted());
        PITH_ASSIGN_OR_RETURN(options.policies, policies_of_list(policies, with_importance,
                                                                 has_gates ? GatePolicies::kAll : GatePolicies::kNone));
    }
    if (perplexity && (!tasks.empty() || context_only || question_aware)) {
        return {ErrorCode::kInvalidArgument,
                "--perplexity asks no questions: leave out --task, --question-aware and --context-only"};
    }
    if (json && csv) { return {ErrorCode::kInvalidArgument, "--json and --csv: give one of them"}; }
    if (!tasks.empty()) { options.tasks = tasks; }
    if (n_samples.has_value()) {
        if (*n_samples < 1) {
            return {ErrorCode::kInvalidArgument, "--samples is " + std::to_string(*n_samples) + ": give 1 or more"};
        }
        options.n_samples = *n_samples;
    }
    options.n_tokens = n_tokens;
    // Dozens of policies, and some that no small budget can hold: only shared rows can say so and go on. Two settings have no
    // place for speeds, so their prefills are shared.
    options.share = share || settings().size() > 1 || ("," + policies + ",").find(",all,") != std::string::npos;
    options.n_threads = n_threads;
    options.heads_file = heads;
    options.seed = seed;
    return options;
}

}  // namespace pith::app
