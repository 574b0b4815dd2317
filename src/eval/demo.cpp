// demo.cpp - runs the demo's texts under every policy and budget. Stage: eval.
#include "eval/demo.h"

#include <algorithm>
#include <utility>

#include "corpus/tasks.h"
#include "eval/median.h"
#include "policy/policy.h"
#include "text/prompt.h"

namespace pith {
namespace {

struct Sample {
    corpus::Task task;
    Prompt prompt;
};

struct Outcome {
    double score = 0;
    double kept_entries = 0;
    size_t kv_bytes = 0;
    double prefill_tps = 0;
    double decode_tps = 0;
};

Result<std::vector<Sample>> make_samples(const Tokenizer & tokenizer, const DemoOptions & options) {
    const corpus::CountTokens count = [&tokenizer](std::string_view text) {
        const auto tokens = tokenizer.encode(text, false, false);
        return tokens.ok() ? static_cast<int>(tokens->size()) : 0;
    };
    std::vector<Sample> samples;
    for (int i = 0; i < options.n_samples; ++i) {
        corpus::TaskOptions task_options;
        task_options.n_tokens = options.n_tokens;
        task_options.seed = options.seed;
        task_options.index = static_cast<uint64_t>(i);
        const std::string & id = options.tasks[static_cast<size_t>(i) % options.tasks.size()];
        PITH_ASSIGN_OR_RETURN(corpus::Task task, corpus::make_task(id, task_options, count));
        PromptRequest request;
        request.context = task.context;
        request.questions = {task.question + task.answer_prefix};
        request.use_template = false;
        PITH_ASSIGN_OR_RETURN(Prompt prompt, build_prompt(tokenizer, request));
        samples.push_back({std::move(task), std::move(prompt)});
    }
    return samples;
}

// Greedy, so that only the cache makes a difference.
Result<std::string> answer(Session & session, const Tokenizer & tokenizer, int max_new_tokens) {
    std::string text;
    for (int i = 0; i < max_new_tokens; ++i) {
        PITH_ASSIGN_OR_RETURN(const int32_t token, session.decode());
        if (tokenizer.is_end_of_generation(token)) { break; }
        text += tokenizer.piece(token);
    }
    return text;
}

Result<Outcome> ask(const Model & model, const Tokenizer & tokenizer, const Sample & sample,
                    const SessionOptions & session_options, const DemoOptions & options) {
    RunHooks hooks;
    hooks.cancel = options.cancel;
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    if (options.question_aware) {
        PITH_RETURN_IF_ERROR(session.prefill(sample.prompt.whole(0), hooks));
    } else {
        PITH_RETURN_IF_ERROR(session.prefill(sample.prompt.context, hooks));
        PITH_RETURN_IF_ERROR(session.prefill(sample.prompt.questions.front(), hooks));
    }
    Outcome outcome;
    const Ledger after_prompt = session.ledger();
    const int n_lanes = session.n_layers() * session.n_kv_heads();
    outcome.kept_entries = static_cast<double>(after_prompt.kept_entries) / n_lanes;
    outcome.kv_bytes = after_prompt.kv_allocated_bytes;
    outcome.prefill_tps = after_prompt.prefill_tps();
    PITH_ASSIGN_OR_RETURN(const std::string text, answer(session, tokenizer, sample.task.max_new_tokens));
    outcome.decode_tps = session.ledger().decode_tps();
    outcome.score = corpus::score(sample.task, text);
    return outcome;
}

DemoRow summary(const std::string & policy, const Budget & budget, const std::vector<Sample> & samples,
                const std::vector<Outcome> & outcomes) {
    DemoRow row;
    row.policy = policy;
    row.budget = budget.kind == BudgetKind::kNone ? "" : budget.to_string();
    row.n_samples = static_cast<int>(outcomes.size());
    std::vector<double> prefill;
    std::vector<double> decode;
    const auto n = static_cast<double>(outcomes.size());
    double kv_bytes = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
        row.n_right += outcomes[i].score;
        row.kept_entries += outcomes[i].kept_entries / n;
        row.prompt_tokens += static_cast<double>(samples[i].prompt.context.size() + samples[i].prompt.questions[0].size()) / n;
        kv_bytes += static_cast<double>(outcomes[i].kv_bytes) / n;
        prefill.push_back(outcomes[i].prefill_tps);
        decode.push_back(outcomes[i].decode_tps);
    }
    row.kv_bytes = static_cast<size_t>(kv_bytes);
    row.prefill_tps = median(prefill);
    row.decode_tps = median(decode);
    return row;
}

// `full` stands once, whatever the budgets.
Result<std::vector<std::pair<std::string, Budget>>> make_cases(const DemoOptions & options) {
    std::vector<std::pair<std::string, Budget>> cases;
    for (const std::string & name : options.policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(name));
        if (!policy.evicts()) {
            cases.emplace_back(name, Budget());
            continue;
        }
        for (const Budget & budget : options.budgets) { cases.emplace_back(name, budget); }
    }
    // Rows of one budget side by side; stable, so that policies keep the order given.
    std::stable_sort(cases.begin(), cases.end(), [&options](const auto & a, const auto & b) {
        const auto rank = [&options](const Budget & budget) {
            for (size_t i = 0; i < options.budgets.size(); ++i) {
                if (budget.kind == options.budgets[i].kind && budget.value == options.budgets[i].value) {
                    return static_cast<int>(i);
                }
            }
            return -1;
        };
        return rank(a.second) < rank(b.second);
    });
    return cases;
}

}  // namespace

Result<std::vector<DemoRow>> run_demo(const Model & model, const Tokenizer & tokenizer, const DemoOptions & options) {
    if (options.tasks.empty() || options.n_samples < 1) {
        return {ErrorCode::kInvalidArgument, "the demo needs at least one task and one sample"};
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<Sample> samples, make_samples(tokenizer, options));
    PITH_ASSIGN_OR_RETURN(const auto cases, make_cases(options));
    std::vector<DemoRow> rows;
    const int n_total = static_cast<int>(cases.size()) * options.n_samples;
    int n_done = 0;
    for (const auto & [policy, budget] : cases) {
        SessionOptions session_options;
        session_options.policy = policy;
        session_options.budget = budget;
        session_options.n_threads = options.n_threads;
        // One eviction that sees the whole prompt: the papers' setting.
        session_options.prefill = PrefillSchedule::kOneShot;
        std::vector<Outcome> outcomes;
        for (const Sample & sample : samples) {
            PITH_ASSIGN_OR_RETURN(const Outcome outcome, ask(model, tokenizer, sample, session_options, options));
            outcomes.push_back(outcome);
            if (options.progress) { options.progress(++n_done, n_total); }
        }
        rows.push_back(summary(policy, budget, samples, outcomes));
    }
    return rows;
}

}  // namespace pith
