// demo.cpp - runs the demo's texts under every policy and budget. Stage: probe.
#include "engine/probe/demo.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/items.h"
#include "core/median.h"
#include "engine/generate_tokens.h"
#include "engine/probe/built_in_task.h"
#include "engine/probe/policy_cases.h"
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
    std::string chosen;  // what `auto` became
};

// Those that fit; the others are counted by task.
Result<std::vector<Sample>> make_samples(const Tokenizer & tokenizer, const DemoOptions & options) {
    const corpus::CountTokens count = count_tokens_of(tokenizer);
    std::vector<Sample> samples;
    std::map<std::string, std::pair<int, std::string>> left_out;  // how many, and why the first
    for (int i = 0; i < options.n_samples; ++i) {
        corpus::TaskOptions task_options;
        task_options.n_tokens = options.n_tokens;
        task_options.seed = options.seed;
        task_options.index = static_cast<uint64_t>(i);
        const std::string & id = options.tasks[static_cast<size_t>(i) % options.tasks.size()];
        PITH_ASSIGN_OR_RETURN(BuiltInTask made, make_built_in_task(id, task_options, count));
        if (!made.too_short.empty()) {
            auto & [n, why] = left_out[id];
            if (++n == 1) { why = std::move(made.too_short); }
            continue;
        }
        corpus::Task & task = made.task;
        PromptRequest request;
        request.context = task.context;
        request.questions = {task.question + task.answer_prefix};
        request.use_template = false;
        PITH_ASSIGN_OR_RETURN(Prompt prompt, build_prompt(tokenizer, request));
        samples.push_back({std::move(task), std::move(prompt)});
    }
    const Wording given = ", but " + item::kTextTokens + " is " + std::to_string(options.n_tokens);
    if (samples.empty()) {
        return {ErrorCode::kInvalidArgument, "no text fits: " + left_out.begin()->second.second + given + ": raise it"};
    }
    for (const auto & [id, missing] : left_out) {
        if (options.left_out) { options.left_out(missing.first, {ErrorCode::kInvalidArgument, missing.second + given}); }
    }
    return samples;
}

// Greedy, so that only the cache makes a difference.
Result<std::string> answer(Session & session, const Tokenizer & tokenizer, int max_new_tokens) {
    std::string text;
    GenerateRules rules;
    rules.n_predict = std::max(0, max_new_tokens);
    rules.ends = [&](int32_t token) { return tokenizer.is_end_of_generation(token); };
    rules.say = [&](int32_t token) {
        text += tokenizer.piece(token);
        return true;
    };
    rules.feeds_last = true;  // it counts in the tokens per second
    PITH_RETURN_IF_ERROR(generate_tokens(session, rules).status());
    return text;
}

// What the cache holds after the prompt, and what is answered.
Result<Outcome> measure(Session & session, const Tokenizer & tokenizer, const Sample & sample) {
    Outcome outcome;
    const Ledger after_prompt = session.ledger();
    outcome.kept_entries = static_cast<double>(after_prompt.kept_entries) / static_cast<double>(after_prompt.n_lanes);
    outcome.chosen = after_prompt.policy_reason.empty() ? "" : after_prompt.policy;
    outcome.kv_bytes = after_prompt.kv_allocated_bytes - after_prompt.kv_saved_bytes;
    PITH_ASSIGN_OR_RETURN(const std::string text, answer(session, tokenizer, sample.task.max_new_tokens));
    const Ledger & ledger = session.ledger();
    const double seconds = ledger.decode_s - after_prompt.decode_s;
    outcome.decode_tps = seconds > 0 ? static_cast<double>(ledger.n_generated - after_prompt.n_generated) / seconds : 0;
    outcome.score = corpus::score(sample.task, text);
    return outcome;
}

// What is prefilled and compressed; the rest follows once it is.
std::vector<int32_t> first_part(const Sample & sample, const DemoOptions & options) {
    return options.question_aware ? sample.prompt.whole(0) : sample.prompt.context;
}

// Of that, what asks.
RunHooks hooks_of_first(const Sample & sample, const DemoOptions & options) {
    RunHooks hooks;
    hooks.cancel = options.cancel;
    hooks.n_question = options.question_aware ? static_cast<int>(sample.prompt.questions.front().size()) : 0;
    return hooks;
}

Status feed_question(Session & session, const Sample & sample, const DemoOptions & options, const RunHooks & hooks) {
    return options.question_aware ? Status() : session.prefill(sample.prompt.questions.front(), hooks);
}

Result<Outcome> ask(const Model & model, const Tokenizer & tokenizer, const Sample & sample,
                    const SessionOptions & session_options, const DemoOptions & options) {
    RunHooks hooks;
    hooks.cancel = options.cancel;
    PITH_ASSIGN_OR_RETURN(Session session, model.session(session_options));
    PITH_RETURN_IF_ERROR(session.prefill(first_part(sample, options), hooks_of_first(sample, options)));
    PITH_RETURN_IF_ERROR(feed_question(session, sample, options, hooks));
    const double prefill_tps = session.ledger().prefill_tps();
    PITH_ASSIGN_OR_RETURN(Outcome outcome, measure(session, tokenizer, sample));
    outcome.prefill_tps = prefill_tps;
    return outcome;
}

struct CaseOutcomes {
    std::vector<Outcome> outcomes;  // [text]
    std::string note;
};

DemoRow summary(const PolicyCase & one, const std::vector<Sample> & samples, const CaseOutcomes & result) {
    const std::vector<Outcome> & outcomes = result.outcomes;
    DemoRow row;
    row.policy = one.policy.name();
    row.budget = one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string();
    row.note = result.note;
    if (!row.note.empty()) { return row; }
    row.n_samples = static_cast<int>(outcomes.size());
    if (!outcomes.empty()) { row.chosen = outcomes.front().chosen; }  // the same facts for every text
    std::vector<double> prefill;
    std::vector<double> decode;
    std::vector<double> scores;
    const auto n = static_cast<double>(outcomes.size());
    double kv_bytes = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
        row.n_right += outcomes[i].score;
        row.kept_entries += outcomes[i].kept_entries / n;
        row.prompt_tokens += static_cast<double>(samples[i].prompt.context.size() + samples[i].prompt.questions[0].size()) / n;
        kv_bytes += static_cast<double>(outcomes[i].kv_bytes) / n;
        prefill.push_back(outcomes[i].prefill_tps);
        decode.push_back(outcomes[i].decode_tps);
        scores.push_back(outcomes[i].score);
    }
    row.right_interval = score_interval(scores);
    row.kv_bytes = static_cast<size_t>(kv_bytes);
    row.prefill_tps = median(prefill);
    row.decode_tps = median(decode);
    return row;
}

// Told after each text under each policy and budget.
class Progress {
public:
    Progress(const DemoOptions & options, size_t n_cases, size_t n_samples)
        : options_(options), n_total_(static_cast<int>(n_cases * n_samples)) {}
    void step() {
        if (options_.progress) { options_.progress(++n_done_, n_total_); }
    }

private:
    const DemoOptions & options_;
    int n_total_;
    int n_done_ = 0;
};

// A session of its own for each text under each policy and budget.
Status run_apart(const Model & model, const Tokenizer & tokenizer, const DemoOptions & options,
                 const SessionOptions & session_options, const std::vector<Sample> & samples,
                 const std::vector<PolicyCase> & cases, std::vector<CaseOutcomes> & results) {
    Progress progress(options, cases.size(), samples.size());
    for (size_t i = 0; i < cases.size(); ++i) {
        SessionOptions own = session_options;
        own.policy = cases[i].policy;
        own.budget = cases[i].budget;
        for (const Sample & sample : samples) {
            PITH_ASSIGN_OR_RETURN(const Outcome outcome, ask(model, tokenizer, sample, own, options));
            results[i].outcomes.push_back(outcome);
            progress.step();
        }
    }
    return {};
}

// One prefill of each text for all policies and budgets.
Status run_shared(const Model & model, const Tokenizer & tokenizer, const DemoOptions & options,
                  const SessionOptions & session_options, const std::vector<Sample> & samples,
                  const std::vector<PolicyCase> & cases, std::vector<CaseOutcomes> & results) {
    Progress progress(options, cases.size(), samples.size());
    RunHooks hooks;
    hooks.cancel = options.cancel;
    for (const Sample & sample : samples) {
        const VisitCase visit = [&](size_t index, Session & session, const Status & ran) -> Status {
            progress.step();
            if (!ran.ok()) {
                results[index].note = ran.message();
                return {};
            }
            PITH_RETURN_IF_ERROR(feed_question(session, sample, options, hooks));
            PITH_ASSIGN_OR_RETURN(const Outcome outcome, measure(session, tokenizer, sample));
            results[index].outcomes.push_back(outcome);
            return {};
        };
        PITH_RETURN_IF_ERROR(
            for_each_case(model, session_options, first_part(sample, options), cases, hooks_of_first(sample, options), visit));
    }
    return {};
}

}  // namespace

Result<std::vector<DemoRow>> run_demo(const Model & model, const Tokenizer & tokenizer, const DemoOptions & options) {
    if (options.tasks.empty() || options.n_samples < 1) {
        return {ErrorCode::kInvalidArgument, "the demo needs at least one task and one sample"};
    }
    PITH_ASSIGN_OR_RETURN(const std::vector<Sample> samples, make_samples(tokenizer, options));
    PITH_ASSIGN_OR_RETURN(const std::vector<PolicyCase> cases, make_cases(options.policies, options.budgets));
    SessionOptions session_options;
    session_options.n_threads = options.n_threads;
    session_options.heads_file = options.heads_file;
    // One eviction that sees the whole prompt: the papers' setting.
    session_options.prefill = PrefillSchedule::kOneShot;
    std::vector<CaseOutcomes> results(cases.size());
    const auto run = options.share ? run_shared : run_apart;
    PITH_RETURN_IF_ERROR(run(model, tokenizer, options, session_options, samples, cases, results));
    std::vector<DemoRow> rows;
    for (size_t i = 0; i < cases.size(); ++i) { rows.push_back(summary(cases[i], samples, results[i])); }
    return rows;
}

}  // namespace pith
