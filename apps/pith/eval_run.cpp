// eval_run.cpp - runs an evaluation in its folder, and shows its table.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "benchmarks/ruler/ruler.h"
#include "errors.h"
#include "eval/eval_report.h"
#include "eval/fingerprint.h"
#include "eval_flags.h"
#include "interrupt.h"
#include "ledger_report.h"
#include "model/write_file.h"
#include "progress.h"
#include "reference_model.h"

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

// One JSON object a line: what would be asked, piece by piece.
Status write_samples(const EvalPlan & plan, const std::string & path) {
    std::string lines;
    const benchmarks::Sample * last = nullptr;
    for (const EvalUnit & unit : plan.units) {
        for (const EvalQuestion & question : unit.questions) {
            if (question.sample == nullptr || question.sample == last) { continue; }
            last = question.sample;
            Json line;
            line["task"] = question.key.task;
            line["length"] = question.key.length;
            line["id"] = last->id;
            line["context"] = last->context;
            line["turns"] = Json::array();
            for (const benchmarks::Turn & turn : last->turns) {
                Json one = {{"question", turn.question},
                            {"answer_prefix", turn.answer_prefix},
                            {"references", turn.references},
                            {"max_new_tokens", turn.max_new_tokens}};
                if (!turn.choices.empty()) { one["choices"] = turn.choices; }
                line["turns"].push_back(std::move(one));
            }
            if (!last->groups.empty()) { line["groups"] = last->groups; }
            lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
        }
    }
    return write_file(path, lines);
}

// One task of RULER at one length is written as RULER's own validation.jsonl, for its tools and for --data.
bool has_rulers_form(const EvalOptions & options) {
    return options.family == "ruler" && options.tasks.size() == 1 && options.lengths.size() == 1;
}

Status write_ruler_samples(const EvalPlan & plan, const Tokenizer & tokenizer, const std::string & path) {
    const auto count = [&tokenizer](std::string_view text) {
        const auto tokens = tokenizer.encode(text, false, false);
        return tokens.ok() ? static_cast<int>(tokens->size()) : 0;
    };
    return write_file(path, benchmarks::ruler_lines(*plan.samples.front(), count));
}

// Seconds of work in the answers so far, prefills apart from the rest.
std::string summary(const RunFolder & folder, int n_now, double seconds, int n_jobs) {
    double prefill_s = 0;
    double answer_s = 0;
    for (const Answer & answer : folder.answers()) {
        prefill_s += answer.prefill_s;
        answer_s += answer.answer_s;
    }
    return std::to_string(n_now) + " answers in " + duration_text(seconds) + ", " + std::to_string(n_jobs) +
           " at once; all answers: " + duration_text(prefill_s) + " of prefill, " + duration_text(answer_s) +
           " of eviction and answering";
}

Status run_in_folder(const EvalFlags & flags, const EvalOptions & options, const Model & model, const Tokenizer & tokenizer,
                     const EvalPlan & plan, RunFolder & folder) {
    const auto start = Clock::now();
    const size_t n_before = folder.answers().size();
    EvalHooks hooks;
    hooks.cancel = &catch_interrupt();
    hooks.n_jobs = flags.jobs();
    Status status;
    {
        ProgressLine line("eval");
        int n_first = -1;
        hooks.progress = [&](int n_done, int n_total) {
            if (n_first < 0) { n_first = n_done - 1; }
            const double left = seconds_since(start) / (n_done - n_first) * (n_total - n_done);
            line.show_text(std::to_string(n_done) + " / " + std::to_string(n_total) + " answers, " + duration_text(left) +
                           " left");
        };
        status = run_evaluation(model, tokenizer, options, plan, folder, hooks);
    }
    const int n_now = static_cast<int>(folder.answers().size() - n_before);
    if (status.code() == ErrorCode::kCancelled) {
        std::fprintf(stderr, "pith: %zu of %d answers are there; %s\n", folder.answers().size(),
                     plan.n_answers() + static_cast<int>(plan.left_out.size()),
                     folder.path().empty() ? "without -o FOLDER they are lost"
                                           : ("the same command goes on from them in '" + folder.path() + "'").c_str());
    }
    if (status.ok() && n_now > 0) {
        std::fprintf(stderr, "%s\n", summary(folder, n_now, seconds_since(start), hooks.n_jobs).c_str());
    }
    return status;
}

}  // namespace

Status report_eval(const EvalFlags & flags, const RunFolder & folder, bool write) {
    const EvalTable table = make_eval_table(folder.info(), folder.answers());
    const std::string text = flags.json       ? eval_json(table)
                             : flags.csv      ? eval_csv(table)
                             : flags.markdown ? eval_markdown(table)
                             : flags.svg      ? eval_svg(table, folder.answers())
                                              : eval_text(table, flags.details);
    if (write && !folder.path().empty()) {
        PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.csv", eval_csv(table)));
        PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.json", eval_json(table)));
        PITH_RETURN_IF_ERROR(write_file(folder.path() + "/table.md", eval_markdown(table)));
        PITH_RETURN_IF_ERROR(write_file(folder.path() + "/figures.svg", eval_svg(table, folder.answers())));
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
}

Status print_figures(const std::vector<std::string> & names, const RunFolder & folder) {
    const EvalTable table = make_eval_table(folder.info(), folder.answers());
    const std::vector<std::string> known = figure_names(table);
    for (const std::string & name : names) {
        if (std::ranges::find(known, name) != known.end()) { continue; }
        std::string list;
        for (const std::string & one : known) { list += (list.empty() ? "" : ", ") + one; }
        return {ErrorCode::kInvalidArgument, "--figure '" + name + "' is none of this run: there are " + list};
    }
    const std::string text = eval_svg(table, folder.answers(), names);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
}

int run_eval(const EvalFlags & given) {
    EvalFlags flags = given;
    if (const Status status = flags.check(); !status.ok()) { return fail_usage(status.message()); }
    if (flags.model.path.empty()) {
        const auto path = reference_model();
        if (!path.ok()) { return fail(path.status()); }
        flags.model.path = *path;
    }
    const auto options = eval_options(flags, flags.model.path);
    if (!options.ok()) {
        return options.status().code() == ErrorCode::kInvalidArgument ? fail_usage(options.status().message())
                                                                      : fail(options.status());
    }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    auto plan = plan_evaluation(*model, *tokenizer, *options);
    if (!plan.ok()) { return fail(plan.status()); }
    if (!flags.write_samples.empty()) {
        const Status status = has_rulers_form(*options) ? write_ruler_samples(*plan, *tokenizer, flags.write_samples)
                                                        : write_samples(*plan, flags.write_samples);
        return status.ok() ? kExitOk : fail(status);
    }
    auto settings = eval_settings(flags, *options, *model);
    if (!settings.ok()) { return fail(settings.status()); }
    plan->info.settings = std::move(*settings);
    plan->info.about.emplace_back("machine", machine_name());
    plan->info.about.emplace_back("started", now_text());
    const auto folder = RunFolder::open(flags.out, plan->info, flags.resume);
    if (!folder.ok()) { return fail(folder.status()); }
    const Status ran = run_in_folder(flags, *options, *model, *tokenizer, *plan, **folder);
    if (!ran.ok()) { return fail(ran); }
    const Status reported = report_eval(flags, **folder, true);
    return reported.ok() ? kExitOk : fail(reported);
}

}  // namespace pith::app
