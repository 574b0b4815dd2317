// evaluate.cpp - from options to units, and the units over the cores. Stage: eval.
#include "eval/evaluate.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/guarded.h"
#include "core/on_threads.h"
#include "engine/parts/model_parts.h"
#include "engine/probe/built_in_task.h"
#include "eval/ask.h"
#include "eval/ask_together.h"
#include "eval/plain_text.h"
#include "eval/sample_length.h"
#include "plan/run_plan.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"
#include "text/reread_prompt.h"

namespace pith {
namespace {

using benchmarks::Sample;
using benchmarks::Task;
using benchmarks::TooLong;

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t> & second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

// What of a turn is compressed and what comes after, with the question on either side.
struct Sides {
    std::vector<int32_t> compressed;
    std::vector<int32_t> feed;
};

Sides sides_of(const std::vector<int32_t> & context, const TurnTokens & turn, bool question_aware) {
    // A sample without context has nothing to compress but its question.
    if (!question_aware && !context.empty()) { return {context, joined(turn.question, turn.prefix)}; }
    Sides sides{joined(context, turn.question), turn.prefix};
    if (sides.compressed.empty()) { std::swap(sides.compressed, sides.feed); }
    return sides;
}

class Planner {
public:
    Planner(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options)
        : model_(model),
          tokenizer_(tokenizer),
          options_(options),
          n_ctx_(options.n_ctx > 0 ? options.n_ctx : model.info().n_ctx_train),
          path_(model.info().path) {}

    Result<EvalPlan> plan() {
        std::vector<PolicyChoice> policies = {"full"};
        std::copy_if(options_.policies.begin(), options_.policies.end(), std::back_inserter(policies),
                     [&](const PolicyChoice & one) { return std::count(policies.begin(), policies.end(), one) == 0; });
        PITH_ASSIGN_OR_RETURN(plan_.cases, make_cases(policies, options_.budgets));
        for (const PolicyCase & one : plan_.cases) { PITH_RETURN_IF_ERROR(check_schedule(one)); }
        for (const int length : options_.lengths) { PITH_RETURN_IF_ERROR(check_length(length)); }
        const bool perplexity = options_.tasks.empty();
        if (perplexity) {
            for (const int length : options_.lengths) { PITH_RETURN_IF_ERROR(add_documents(length)); }
        }
        for (const Task * task : options_.tasks) {
            for (const int length : options_.lengths) { PITH_RETURN_IF_ERROR(add_task(*task, length)); }
        }
        PITH_RETURN_IF_ERROR(check_any_fits());
        describe(perplexity);
        return std::move(plan_);
    }

private:
    // What every session would refuse is refused before there is a folder. (A perplexity chooses its schedule itself.)
    Status check_schedule(const PolicyCase & one) const {
        if (options_.tasks.empty() || !model_.info().has_gates || gate_of(model_)->config().works_in_chunks()) { return {}; }
        PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(one.policy, {.limited = true, .gates = known_gates(model_)}));
        if (!policy.needs_gate()) { return {}; }
        return plan_run({.whole_prompt = true, .prefill = options_.session.prefill}).status();
    }

    Status check_length(int length) const {
        PITH_RETURN_IF_ERROR(check_at_least("--context", length, 0));
        if (n_ctx_ == 0 || length <= n_ctx_) { return {}; }
        const bool perplexity = options_.tasks.empty();
        const bool limited =
            std::ranges::any_of(plan_.cases, [](const PolicyCase & one) { return one.budget.kind != BudgetKind::kNone; });
        if (perplexity && limited && options_.n_ctx == 0 && options_.session.context_shift) { return {}; }
        return {ErrorCode::kInvalidArgument, "--context " + std::to_string(length) + " is more than the " +
                                                 std::to_string(n_ctx_) +
                                                 " tokens the model takes: give less, or raise "
                                                 "--ctx-size to try it all the same"};
    }

    // Samples as a file has them: they were made, and told apart, before.
    Status add_ready(const Task & task, int length) {
        std::vector<Sample> samples;
        for (const FileSample & one : options_.ready_samples) {
            const bool wanted = options_.n_samples == 0 || std::ssize(samples) < options_.n_samples;
            if (wanted && one.task == &task && one.length == length) { samples.push_back(one.sample); }
        }
        return samples.empty() ? Status() : add_samples(task, length, std::move(samples), /*limit=*/n_ctx_);
    }

    Status add_task(const Task & task, int length) {
        if (!options_.ready_samples.empty()) { return add_ready(task, length); }
        const benchmarks::TaskRules & rules = task.rules();
        PITH_ASSIGN_OR_RETURN(const int overhead, prompt_overhead(tokenizer_, uses_template(rules)));
        benchmarks::SampleRequest request;
        request.n_samples = options_.n_samples;
        request.seed = options_.seed;
        request.haystack = options_.haystack;
        request.count = count_tokens_of(tokenizer_);
        const auto ready = options_.files.find(rules.ready);
        if (ready != options_.files.end()) { request.ready = ready->second; }
        const bool fits_itself = makes_its_length(rules) && request.ready.empty();
        if (length > 0 && fits_itself) {
            request.n_tokens = std::max(1, length - overhead);
            request.n_overhead = overhead;
        }
        if (const auto file = options_.files.find(rules.file); file != options_.files.end()) { request.file = file->second; }
        auto found = task.samples(request);
        if (found.status().code() == ErrorCode::kBudget) {
            leave_out(rules.name, length, "", found.status().message() + " by --context " + std::to_string(length));
            return {};
        }
        PITH_ASSIGN_OR_RETURN(std::vector<Sample> made, std::move(found));
        if (options_.n_samples > 0 && static_cast<int>(made.size()) > options_.n_samples) {
            made.resize(static_cast<size_t>(options_.n_samples));
        }
        const bool by_length = length > 0 && rules.too_long == TooLong::kRefuse && !fits_itself;
        return add_samples(task, length, std::move(made), by_length ? length : n_ctx_);
    }

    bool uses_template(const benchmarks::TaskRules & rules) const {
        return rules.chat && !options_.raw && tokenizer_.has_chat_template();
    }

    // limit: tokens that a sample may take, answer included.
    Status add_samples(const Task & task, int length, std::vector<Sample> made, int limit) {
        const benchmarks::TaskRules & rules = task.rules();
        plan_.samples.push_back(std::make_unique<std::vector<Sample>>(std::move(made)));
        const std::vector<Sample> & samples = *plan_.samples.back();

        PromptRules prompt_rules;
        prompt_rules.chat = uses_template(rules);
        prompt_rules.prefix_asked = rules.prefix_asked && !options_.raw;
        prompt_rules.too_long = rules.too_long;
        prompt_rules.n_middle = rules.too_long == TooLong::kMiddle ? length : 0;
        prompt_rules.n_ctx = limit;
        PITH_ASSIGN_OR_RETURN(const RereadPrompt reread, reread_prompt(tokenizer_, prompt_rules.chat));
        std::set<std::string> ids;
        const size_t first_unit = plan_.units.size();
        for (size_t i = 0; i < samples.size(); ++i) {
            if (!ids.insert(samples[i].id).second) {
                return {ErrorCode::kBadFile, "task " + rules.name + " has two samples '" + samples[i].id + "'" +
                                                 (rules.file.empty() ? "" : ": mend '" + rules.file + "'")};
            }
            Answer key;
            key.task = rules.name;
            key.length = length;
            key.fields = samples[i].fields;
            key.sample = samples[i].id;
            key.index = static_cast<int>(i);
            key.groups = samples[i].groups;
            PITH_ASSIGN_OR_RETURN(const SampleTokens tokens, tokenise_sample(tokenizer_, samples[i], prompt_rules));
            key.n_cut = tokens.n_cut;
            if (tokens.too_long.empty()) {
                add_sample(task, samples[i], tokens, key, reread, first_unit);
                continue;
            }
            leave_out(rules.name, length, samples[i].id, tokens.too_long, static_cast<int>(i));
        }
        if (plan_.units.size() == first_unit && !samples.empty()) {
            const char * const option = length > 0 && prompt_rules.n_ctx == length ? "--context" : "--ctx-size";
            const std::string why = plan_.left_out.back().refused;
            leave_out(rules.name, length, "",
                      "task '" + rules.name + "' has no sample that fits: " + why + " (" + option + ")");
        }
        return {};
    }

    // A sample, or without a name all of a task.
    void leave_out(const std::string & task, int length, const std::string & sample, std::string why, int index = 0) {
        Answer key;
        key.task = task;
        key.length = length;
        key.sample = sample;
        key.index = index;
        key.turn = -1;
        key.refused = std::move(why);
        plan_.left_out.push_back(std::move(key));
    }

    // Nothing left to ask is an error, which says why of the first task.
    Status check_any_fits() const {
        if (!plan_.units.empty() || plan_.left_out.empty()) { return {}; }
        const auto whole_task = std::ranges::find_if(plan_.left_out, [](const Answer & one) { return one.sample.empty(); });
        if (whole_task == plan_.left_out.end()) { return {ErrorCode::kInvalidArgument, plan_.left_out.front().refused}; }
        if (options_.tasks.empty()) { return {ErrorCode::kInvalidArgument, whole_task->refused}; }
        const bool by_model = whole_task->refused.ends_with("(--ctx-size)");
        return {ErrorCode::kInvalidArgument,
                whole_task->refused + (by_model ? ": give a larger --ctx-size" : ": give a larger --context")};
    }

    void add_sample(const Task & task, const Sample & sample, const SampleTokens & tokens, const Answer & key,
                    const RereadPrompt & reread, size_t first_unit) {
        std::vector<int32_t> said;  // by turns that ask nothing, since the last question
        for (size_t t = 0; t < tokens.turns.size(); ++t) {
            const TurnTokens & turn = tokens.turns[t];
            const bool follows = tokens.dialogue && t > 0;
            Sides sides = sides_of(tokens.context, turn, options_.question_aware);
            EvalUnit * last = plan_.units.size() > first_unit ? &plan_.units.back() : nullptr;
            const bool same = follows || (last != nullptr && options_.share && !tokens.dialogue && !last->dialogue &&
                                          last->compressed == sides.compressed);
            if (!same) {
                plan_.units.emplace_back();
                last = &plan_.units.back();
                last->compressed = std::move(sides.compressed);
                last->dialogue = tokens.dialogue;
                last->reread = reread;
                const bool chunked = options_.session.prefill == PrefillSchedule::kChunked;
                const bool in_sight = options_.question_aware && (options_.guided || !chunked);
                last->n_question = in_sight && !tokens.context.empty() ? static_cast<int>(turn.question.size()) : 0;
            }
            std::vector<int32_t> feed = joined(said, follows ? joined(turn.question, turn.prefix) : std::move(sides.feed));
            said.clear();
            if (tokens.dialogue && !sample.turns[t].asks()) {
                said = joined(feed, turn.follow_up);
                continue;
            }
            EvalQuestion question;
            question.key = key;
            question.key.turn = static_cast<int>(t);
            question.key.references = sample.turns[t].references;
            question.task = &task;
            question.sample = &sample;
            question.turn = t;
            question.feed = std::move(feed);
            question.follow_up = turn.follow_up;
            question.choices = turn.choices;
            question.n_new = sample.turns[t].max_new_tokens;
            if (options_.n_new > 0) { question.n_new = std::min(question.n_new, options_.n_new); }
            question.stop_at_newline = task.rules().stop_at_newline;
            last->questions.push_back(std::move(question));
        }
    }

    // Documents of exactly `length` tokens: stretches of the texts given, else generated ones.
    Status add_documents(int length) {
        constexpr int kFewest = 2;
        if (length < kFewest) {
            return {ErrorCode::kInvalidArgument,
                    "perplexity needs a --context of " + std::to_string(kFewest) + " tokens or more"};
        }
        const int limit = options_.n_samples;
        int n = 0;
        int n_all = 0;
        PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> before, tokens_before_text(tokenizer_));
        for (size_t t = 0; t < options_.texts.size(); ++t) {
            PITH_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer_.encode(options_.texts[t], false, false));
            const size_t width = static_cast<size_t>(length) - before.size();
            if (tokens.size() < width) {
                const std::string name = "text " + std::to_string(t + 1);
                leave_out("perplexity", length, name,
                          name + " has " + std::to_string(tokens.size()) + " tokens, --context asks for " +
                              std::to_string(length) + ": give a longer text or a smaller --context",
                          static_cast<int>(t));
                continue;
            }
            n_all += static_cast<int>(tokens.size() / width);
            for (size_t begin = 0; begin + width <= tokens.size() && (limit == 0 || n < limit); begin += width, ++n) {
                std::vector<int32_t> document = before;
                const auto from = tokens.begin() + static_cast<std::ptrdiff_t>(begin);
                document.insert(document.end(), from, from + static_cast<std::ptrdiff_t>(width));
                add_document(std::move(document), length, n,
                             "text " + std::to_string(t + 1) + " from token " + std::to_string(begin));
            }
        }
        if (!options_.texts.empty()) { plan_.stretches.push_back({length, n, n_all}); }
        if (!options_.texts.empty() && n == 0) {
            leave_out("perplexity", length, "", plan_.left_out.back().refused);  // at this length; others go on
        }
        for (; options_.texts.empty() && n < limit; ++n) {
            PITH_ASSIGN_OR_RETURN(std::vector<int32_t> document, make_plain_tokens(tokenizer_, options_.seed, n, length));
            add_document(std::move(document), length, n, "generated " + std::to_string(n));
        }
        return {};
    }

    void add_document(std::vector<int32_t> tokens, int length, int index, std::string id) {
        EvalUnit unit;
        unit.perplexity = true;
        unit.compressed = std::move(tokens);
        EvalQuestion question;
        question.key.task = "perplexity";
        question.key.length = length;
        question.key.sample = std::move(id);
        question.key.index = index;
        unit.questions.push_back(std::move(question));
        plan_.units.push_back(std::move(unit));
    }

    void describe(bool perplexity) {
        plan_.info.family = options_.family;
        plan_.info.lengths = options_.lengths;
        if (perplexity) { plan_.info.tasks.push_back({"perplexity", "perplexity", {}, true}); }
        for (const Task * task : options_.tasks) {
            const benchmarks::TaskRules & rules = task->rules();
            plan_.info.tasks.push_back({rules.name, rules.metric, rules.group_by, false});
        }
        for (const PolicyCase & one : plan_.cases) {
            plan_.info.cases.push_back({one.policy.name(), one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string()});
        }
        plan_.info.about.emplace_back("model path", path_);
    }

    const Model & model_;
    const Tokenizer & tokenizer_;
    const EvalOptions & options_;
    int n_ctx_;
    std::string path_;
    EvalPlan plan_;
};

// How often the unit's prompt is read: once for all cases that share it. shared: [case]; empty: none do.
int64_t n_prefills(const WantedUnit & one, const std::vector<bool> & shared) {
    int64_t n_apart = 0;
    bool any_shared = false;
    for (size_t i = 0; i < one.cases.size(); ++i) {
        const bool is_shared = !shared.empty() && !one.unit->perplexity && shared[i];
        n_apart += one.cases[i] && !is_shared ? 1 : 0;
        any_shared = any_shared || (one.cases[i] && is_shared);
    }
    return n_apart + (any_shared ? 1 : 0);
}

// What the threads of a run share.
class EvaluationRun {
public:
    EvaluationRun(const EvalPlan & plan, RunFolder & folder, const EvalHooks & hooks)
        : plan_(plan), folder_(folder), hooks_(hooks), n_total_(plan.n_answers()) {
        for (const Answer & answer : folder.answers()) { n_done_ += answer.turn >= 0 ? 1 : 0; }
    }

    // All questions of the unit have their answers under this case.
    bool wanted(const EvalUnit & unit, const PolicyCase & one) const {
        return std::any_of(unit.questions.begin(), unit.questions.end(), [&](const EvalQuestion & question) {
            Answer key = question.key;
            key.policy = one.policy.name();
            key.budget = one.budget.kind == BudgetKind::kNone ? "" : one.budget.to_string();
            return !folder_.has(key);
        });
    }

    Status emit(const std::vector<Answer> & answers) {
        const std::lock_guard lock(mutex_);
        if (!status_.ok()) { return status_; }
        const size_t before = folder_.answers().size();
        PITH_RETURN_IF_ERROR(folder_.append(answers));
        n_done_ += static_cast<int>(folder_.answers().size() - before);
        if (hooks_.progress) { hooks_.progress(n_done_, n_total_); }
        return {};
    }

    // So many more tokens are to be read for the answers to come.
    void will_read(int64_t n_tokens) { n_to_read_ += n_tokens; }
    void read(int64_t n_more) {
        const std::lock_guard lock(mutex_);
        n_read_ += n_more;
        if (hooks_.read) { hooks_.read(n_read_, n_to_read_); }
    }
    // Of prompts and perplexities that are read one after the other.
    RunHooks hooks_of_session() {
        RunHooks hooks;
        hooks.cancel = hooks_.cancel;
        if (hooks_.read) {
            hooks.progress = [this, before = int64_t{0}](int64_t n_done, int64_t n_all) mutable {
                read(n_done - before);
                before = n_done == n_all ? 0 : n_done;
            };
        }
        return hooks;
    }

    // The first error stops the others at their next answer.
    void fail(const Status & status) {
        const std::lock_guard lock(mutex_);
        if (status_.ok()) { status_ = status; }
    }
    bool stopped() {
        const std::lock_guard lock(mutex_);
        return !status_.ok();
    }
    const Status & status() const { return status_; }
    size_t next() { return next_.fetch_add(1); }

private:
    const EvalPlan & plan_;
    RunFolder & folder_;
    const EvalHooks & hooks_;
    std::mutex mutex_;
    Status status_;
    int n_total_ = 0;
    int n_done_ = 0;
    int64_t n_to_read_ = 0;
    int64_t n_read_ = 0;
    std::atomic<size_t> next_{0};
};

}  // namespace

SessionOptions EvalOptions::session_of(const PolicyCase & one) const {
    SessionOptions out = session;
    out.policy = one.policy;
    out.budget = one.budget;
    return out;
}

int EvalPlan::n_answers() const {
    size_t n = 0;
    for (const EvalUnit & unit : units) { n += unit.questions.size() * cases.size(); }
    return static_cast<int>(n);
}

Result<EvalPlan> plan_evaluation(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options) {
    return Planner(model, tokenizer, options).plan();
}

Status run_evaluation(const Model & model, const Tokenizer & tokenizer, const EvalOptions & options, const EvalPlan & plan,
                      RunFolder & folder, const EvalHooks & hooks) {
    PITH_RETURN_IF_ERROR(folder.append(plan.left_out));
    EvaluationRun run(plan, folder, hooks);
    std::vector<WantedUnit> wanted;
    for (const EvalUnit & unit : plan.units) {
        WantedUnit one{&unit, {}};
        for (const PolicyCase & policy : plan.cases) { one.cases.push_back(run.wanted(unit, policy)); }
        if (std::ranges::find(one.cases, true) != one.cases.end()) { wanted.push_back(std::move(one)); }
    }
    if (hooks.read) {
        std::vector<bool> shared;
        if (options.share && options.one_shot()) {
            PITH_ASSIGN_OR_RETURN(SharedPrefill prefill,
                                  share_prefill(model, options.session_of(plan.cases.front()), plan.cases));
            shared = std::move(prefill.serves);
        }
        for (const WantedUnit & one : wanted) { run.will_read(std::ssize(one.unit->compressed) * n_prefills(one, shared)); }
    }
    const auto next = [&]() -> std::optional<WantedUnit> {
        const size_t i = run.next();
        return i < wanted.size() && !run.stopped() ? std::optional(wanted[i]) : std::nullopt;
    };
    const EmitAnswers emit = [&](const std::vector<Answer> & answers) { return run.emit(answers); };
    const bool together = hooks.n_parallel > 1 && can_ask_together(options, plan.cases);
    const auto work = [&]() -> Status {
        if (together) {
            const auto read = [&](int64_t n_more) { run.read(n_more); };
            return ask_together(model, tokenizer, options, plan.cases, hooks.n_parallel, next, hooks.cancel, emit, read);
        }
        while (const std::optional<WantedUnit> one = next()) {
            const auto is_wanted = [&](size_t c) { return one->cases[c]; };
            PITH_RETURN_IF_ERROR(
                ask_unit(model, tokenizer, options, *one->unit, plan.cases, is_wanted, run.hooks_of_session(), emit));
        }
        return {};
    };
    PITH_RETURN_IF_ERROR(on_threads(std::max(hooks.n_jobs, 1), [&](int) -> Status {
        const Status status = guarded(work);
        if (!status.ok()) { run.fail(status); }
        return {};
    }));
    PITH_RETURN_IF_ERROR(run.status());
    return folder.sync();
}

}  // namespace pith
