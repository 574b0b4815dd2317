// eval_run.cpp - runs an evaluation in its folder, and shows its table.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "app/eval/eval_flags.h"
#include "benchmarks/ruler/ruler.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/ledger_report.h"
#include "common/base/progress.h"
#include "common/flags/unseen_question.h"
#include "core/text.h"
#include "engine/probe/built_in_task.h"
#include "engine/probe/foreign_text.h"
#include "eval/fingerprint.h"
#include "eval/report/eval_report.h"
#include "eval/report/sample_table.h"
#include "eval/run_shards.h"
#include "eval/samples_as_json.h"
#include "file/write_file.h"

namespace pith::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string now_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

// The devices that the model's layers lie on, between semicolons; empty: none do.
std::string devices_text(const Model & model) {
    std::vector<std::string> lines;
    for (const DeviceUse & use : model.devices()) { lines.push_back(device_text(use)); }
    return join(lines, "; ");
}

// One line where the texts are so foreign to the model that comparing policies on them means nothing: the highest of the full
// cache's perplexities decides. Does nothing for other tables.
void warn_of_foreign_texts(const EvalTable & table, int n_vocab) {
    if (!table.is_perplexity) { return; }
    double highest = 0;
    for (const EvalRow & row : table.rows) {
        const bool is_full = table.info.cases[row.index].budget.empty();
        if (is_full && row.score) { highest = std::max(highest, *row.score); }
    }
    if (highest > 0 && is_foreign(highest, n_vocab)) { warn(foreign_text_message("the text", highest, n_vocab)); }
}

std::string duration_text(double seconds) {
    const auto s = static_cast<long long>(seconds + 0.5);
    char text[48];
    if (s >= 3600) {
        std::snprintf(text, sizeof text, "%lld h %02lld min", s / 3600, s / 60 % 60);
    } else if (s >= 60) {
        std::snprintf(text, sizeof text, "%lld min %02lld s", s / 60, s % 60);
    } else {
        std::snprintf(text, sizeof text, "%lld s", s);
    }
    return text;
}

// In the form that is the same for every benchmark, or in RULER's own, for its tools and for --data.
Status write_samples(const EvalFlags & flags, const EvalOptions & options, const EvalPlan & plan, const Tokenizer & tokenizer) {
    if (!flags.ruler_form) {
        return write_file(flags.write_samples,
                          flags.with_tokens ? sample_lines_with_tokens(plan, tokenizer) : sample_lines(plan));
    }
    if (options.family != "ruler" || options.tasks.size() != 1 || options.lengths.size() != 1) {
        return {ErrorCode::kInvalidArgument,
                "--ruler-form writes one task of RULER at one length: name them with --tasks and --context"};
    }
    return write_file(flags.write_samples, benchmarks::ruler_lines(*plan.samples.front(), count_tokens_of(tokenizer)));
}

// Tasks of which no sample is short enough, a line each; single samples of the others are counted under the table.
void warn_of_tasks_left_out(const EvalPlan & plan) {
    for (const Answer & one : plan.left_out) {
        if (one.sample.empty()) { warn(one.refused + "; left out"); }
    }
}

// Of a perplexity: that not all of the texts is read, where nobody said how much.
void tell_of_stretches(const EvalFlags & flags, const EvalPlan & plan) {
    for (const EvalPlan::Stretches & one : plan.stretches) {
        if (flags.n_samples > 0 || one.n_read == one.n_all) { continue; }
        std::fprintf(stderr,
                     "pith: the first %d of %d stretches of %s tokens, each read by itself under each of %zu policies and "
                     "budgets: --samples N for others, all for all\n",
                     one.n_read, one.n_all, with_commas(one.length).c_str(), plan.cases.size());
    }
}

// A line while the run goes on: answers, tokens read of prompts or perplexities, of these their speed, and the time left.
class RunProgress {
public:
    RunProgress(const EvalPlan & plan, const RunFolder & folder)
        : n_total_(plan.n_answers()), is_perplexity_(std::ranges::any_of(plan.units, &EvalUnit::perplexity)) {
        for (const Answer & one : folder.answers()) { n_before_ += one.turn >= 0 ? 1 : 0; }  // else it was left out
        n_answers_ = n_before_;
        show();
    }

    void answered(int n_done) {
        n_answers_ = n_done;
        show();
    }
    void read(int64_t n_done, int64_t n_total) {
        n_read_ = n_done;
        n_to_read_ = n_total;
        if (n_read_ == n_to_read_) {  // from here on answers tell the speed
            all_read_ = Clock::now();
            n_before_ = n_answers_;
        }
        show();
    }

    // "4,096 tokens read, 1,204 t/s"; empty: of no perplexity.
    std::string tokens() const {
        if (n_read_ == 0 || !is_perplexity_) { return {}; }
        return with_commas(n_read_) + " tokens read, " +
               with_commas(static_cast<int64_t>(static_cast<double>(n_read_) / seconds_since(start_) + 0.5)) + " t/s";
    }

private:
    void show() {
        std::string text = std::to_string(n_answers_) + " / " + std::to_string(n_total_) + " answers";
        if (is_perplexity_ && n_read_ > 0) {
            text += ", " + tokens();
        } else if (n_to_read_ > 0) {
            text += ", " + with_commas(n_read_) + " / " + with_commas(n_to_read_) + " tokens of prompts";
        }
        if (const double left_s = this->left_s(); left_s >= 0) { text += ", " + duration_text(left_s) + " left"; }
        line_.show_text(text);
    }

    // While there is something to read that is nearly all of the work: answers come behind it in bursts. Negative: not known
    // yet.
    double left_s() const {
        const auto rest = [](double seconds, auto n_done, auto n_all) {
            return n_done > 0 ? seconds * static_cast<double>(n_all - n_done) / static_cast<double>(n_done) : -1;
        };
        if (n_to_read_ > 0 && (n_read_ < n_to_read_ || is_perplexity_)) {
            return rest(seconds_since(start_), n_read_, n_to_read_);
        }
        return rest(seconds_since(all_read_), n_answers_ - n_before_, n_total_ - n_before_);
    }

    ProgressLine line_{"eval"};
    const Clock::time_point start_ = Clock::now();
    Clock::time_point all_read_ = start_;
    int n_total_;
    bool is_perplexity_;
    int n_before_ = 0;  // answers that were there when all was read
    int n_answers_ = 0;
    int64_t n_read_ = 0;
    int64_t n_to_read_ = 0;
};

// Seconds of work in the answers so far, prefills apart from the rest.
std::string summary(const RunFolder & folder, int n_now, double seconds, const EvalHooks & hooks, const std::string & tokens) {
    double prefill_s = 0;
    double answer_s = 0;
    for (const Answer & answer : folder.answers()) {
        prefill_s += answer.prefill_s;
        answer_s += answer.answer_s;
    }
    return std::to_string(n_now) + " answers in " + duration_text(seconds) + ", " +
           std::to_string(hooks.n_jobs * hooks.n_parallel) + " at once; all answers: " + duration_text(prefill_s) +
           " of prefill, " + duration_text(answer_s) + " of eviction and answering" + (tokens.empty() ? "" : "; " + tokens);
}

Status run_in_folder(const EvalFlags & flags, const EvalOptions & options, const Model & model, const Tokenizer & tokenizer,
                     const EvalPlan & plan, RunFolder & folder) {
    const auto start = Clock::now();
    const size_t n_before = folder.answers().size();
    EvalHooks hooks;
    hooks.cancel = &catch_interrupt();
    hooks.n_jobs = flags.jobs(plan.units.size());
    hooks.n_parallel = flags.n_parallel;
    Status status;
    std::string tokens;
    {
        RunProgress progress(plan, folder);
        hooks.progress = [&](int n_done, int) { progress.answered(n_done); };
        hooks.read = [&](int64_t n_done_tokens, int64_t n_all) { progress.read(n_done_tokens, n_all); };
        status = run_evaluation(model, tokenizer, options, plan, folder, hooks);
        tokens = progress.tokens();
    }
    const int n_now = static_cast<int>(folder.answers().size() - n_before);
    if (status.code() == ErrorCode::kCancelled) {
        std::fprintf(stderr, "pith: %zu of %d answers are there; %s\n", folder.answers().size(),
                     plan.n_answers() + static_cast<int>(plan.left_out.size()),
                     folder.path().empty() ? "without -o FOLDER they are lost"
                                           : ("the same command goes on from them in '" + folder.path() + "'").c_str());
    }
    if (status.ok() && n_now > 0) {
        std::fprintf(stderr, "%s\n", summary(folder, n_now, seconds_since(start), hooks, tokens).c_str());
    }
    return status;
}

}  // namespace

std::string table_as_asked(const EvalFlags & flags, const EvalTable & table, const std::vector<Answer> & answers) {
    return flags.json       ? eval_json(table)
           : flags.csv      ? eval_csv(table)
           : flags.markdown ? eval_markdown(table)
           : flags.svg      ? eval_svg(table, answers)
                            : eval_text(table, flags.details);
}

Status report_eval(const EvalFlags & flags, const RunFolder & folder, bool write) {
    const std::string text = table_as_asked(flags, make_eval_table(folder.info(), folder.answers()), folder.answers());
    if (write) { PITH_RETURN_IF_ERROR(write_tables(folder)); }
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
}

Status write_tables(const RunFolder & folder) {
    if (folder.path().empty()) { return {}; }
    const EvalTable table = make_eval_table(folder.info(), folder.answers());
    PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.csv", eval_csv(table)));
    PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.json", eval_json(table)));
    PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.md", eval_markdown(table)));
    PITH_RETURN_IF_ERROR(write_file(folder.path() + "/samples.csv", sample_csv(folder.info(), folder.answers())));
    return write_file(folder.path() + "/figures.svg", eval_svg(table, folder.answers()));
}

Status EvalRun::load(const ModelFlags & flags) {
    if (model && tokenizer) { return {}; }
    PITH_ASSIGN_OR_RETURN(model, flags.load());
    PITH_ASSIGN_OR_RETURN(tokenizer, Tokenizer::load(flags.path));
    return {};
}

int run_eval(const EvalFlags & flags) {
    EvalRun run;
    return run_eval(flags, run);
}

int run_eval(const EvalFlags & given, EvalRun & run) {
    EvalFlags flags = given;
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status); }
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    auto options = eval_options(flags, flags.model.path);
    if (!options.ok()) {
        return options.status().code() == ErrorCode::kInvalidArgument ? fail_usage(options.status()) : fail(options.status());
    }
    if (const Status loaded = run.load(flags.model); !loaded.ok()) { return fail(loaded); }
    const auto & [model, tokenizer, report] = run;
    auto plan = plan_evaluation(*model, *tokenizer, *options);
    if (!plan.ok()) { return fail(plan.status()); }
    warn_of_tasks_left_out(*plan);
    tell_of_stretches(flags, *plan);
    if (!flags.write_samples.empty()) {
        const Status status = write_samples(flags, *options, *plan, *tokenizer);
        return status.ok() ? kExitOk : status.code() == ErrorCode::kInvalidArgument ? fail_usage(status) : fail(status);
    }
    auto settings = eval_settings(flags, *options, *model);
    if (!settings.ok()) { return fail(settings.status()); }
    plan->info.settings = std::move(*settings);
    if (!flags.shard.empty()) { keep_shard(*plan, *parse_shard(flags.shard)); }
    options->session.n_threads = flags.threads(plan->units.size());
    plan->info.about.emplace_back("machine", machine_name());
    plan->info.about.emplace_back("started", now_text());
    if (const std::string devices = devices_text(*model); !devices.empty()) {
        plan->info.about.emplace_back("devices", devices);
    }
    const auto folder = RunFolder::open(flags.out, plan->info, flags.resume);
    if (!folder.ok()) { return fail(folder.status()); }
    const bool named = !flags.policies.empty() && flags.policies != "all";
    if (named && !options->question_aware && !options->tasks.empty()) {
        warn_of_unseen_question(options->policies, *model, flags.heads,
                                "--question-aware compresses with the question in sight");
    }
    const Status ran = run_in_folder(flags, *options, *model, *tokenizer, *plan, **folder);
    if (!ran.ok()) { return fail(ran); }
    warn_of_foreign_texts(make_eval_table((*folder)->info(), (*folder)->answers()), model->info().n_vocab);
    const Status reported = report ? report(flags, **folder) : report_eval(flags, **folder, true);
    return reported.ok() ? kExitOk : fail(reported);
}

}  // namespace pith::app
