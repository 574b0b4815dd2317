// study.cpp - `pith study`: a paper's tables and figures on a given model, one part after the other.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/bench/speed_report.h"
#include "app/eval/eval_flags.h"
#include "app/eval/study_list.h"
#include "app/eval/study_part.h"
#include "app/shell/commands.h"
#include "common/base/args.h"
#include "common/base/errors.h"
#include "common/base/interrupt.h"
#include "common/base/lab_words.h"
#include "common/base/progress.h"
#include "common/options/options.h"
#include "core/text.h"
#include "engine/probe/policy_cases.h"
#include "eval/report/compare_runs.h"
#include "eval/report/eval_report.h"
#include "eval/studies/comparison.h"
#include "eval/studies/studies.h"
#include "file/write_file.h"

namespace pith::app {
namespace {

struct StudyFlags {
    EvalFlags eval;  // what is set here goes over the study's own
    std::string name;
    std::string part;
    std::vector<std::string> scorer_options;  // "pool=avg45"
    bool list = false;
    bool paper = false;
};

// The parts of one study, on one model.
class StudyRunner {
public:
    StudyRunner(const StudyFlags & flags, const Study & study) : flags_(flags), study_(study) {}

    int run() {
        auto tables = paper_tables_of(study_.name);
        if (!tables.ok()) { return fail(tables.status()); }
        tables_ = std::move(*tables);
        if (const int code = prepare(); code != kExitOk) { return code; }
        std::fprintf(stderr, "%s: %s\n", std::string(study_.name).c_str(), std::string(study_.paper).c_str());
        std::fprintf(stderr, "differs: %s\n", std::string(study_.differs).c_str());
        int worst = kExitOk;
        for (const StudyPart & part : study_.parts) {
            if (!flags_.part.empty() && part.name != flags_.part) { continue; }
            const std::string policies = with_own_options(part.policies);
            const std::string pairs = with_own_options(part.pairs);
            StudyPart asked = part;
            asked.policies = policies;
            asked.pairs = pairs;
            const int code = run_part(asked);
            // A part that fails has said why; the others go on, unless nothing of them can be right either.
            if (code == kExitUsage || code == kExitInterrupted) { return code; }
            worst = std::max(worst, code);
        }
        return worst;
    }

private:
    // The model, loaded once for all parts, and the folder for their results.
    int prepare() {
        model_.is_reference = !flags_.eval.model.named();
        if (const Status found = flags_.eval.model.find(); !found.ok()) { return fail_or_usage(found); }
        if (!flags_.eval.out.empty()) {
            std::error_code error;
            std::filesystem::create_directories(flags_.eval.out, error);
            if (error) { return fail({ErrorCode::kIo, "'" + flags_.eval.out + "' cannot be made: " + error.message()}); }
        }
        if (const Status loaded = run_.load(flags_.eval.model); !loaded.ok()) { return fail(loaded); }
        model_.info = run_.model->info();
        model_.has_heads = has_importance(flags_.eval.heads, flags_.eval.model.path, flags_.eval.model.is_adapted());
        return kExitOk;
    }

    std::string with_own_options(std::string_view policies) const {
        std::string changed(policies);
        for (const std::string & option : flags_.scorer_options) { changed = with_scorer_option(changed, option); }
        return changed;
    }

    int run_part(const StudyPart & part) {
        const std::string name(part.name);
        const std::string table(part.table);
        const auto plan = plan_part(flags_.eval, part, model_);
        if (!plan.ok()) { return fail_usage(plan.status()); }
        for (const std::string & note : plan->notes) { std::fprintf(stderr, "%s: %s\n", name.c_str(), note.c_str()); }
        if (!plan->passed_over.empty()) {
            std::fprintf(stderr, "%s, %s: passed over, %s\n", name.c_str(), table.c_str(), plan->passed_over.c_str());
            return kExitOk;
        }
        std::fprintf(stderr, "%s, %s%s\n", name.c_str(), table.c_str(),
                     plan->stands_in ? ": RULER's generated tasks in its place, since there is no --data" : "");
        if (part.kind == StudyKind::kEfficiency) { return measure_speed(part, *plan); }
        int worst = kExitOk;
        for (const EvalFlags & one : plan->runs) {
            if (plan->runs.size() > 1) { std::fprintf(stderr, "%s: chunks of %d\n", name.c_str(), one.chunk); }
            run_.report = [&](const EvalFlags & flags, const RunFolder & folder) { return report(part, *plan, flags, folder); };
            const int code = run_eval(one, run_);
            if (code == kExitUsage || code == kExitInterrupted) { return code; }
            worst = std::max(worst, code);
        }
        return worst;
    }

    Status report(const StudyPart & part, const PartPlan & plan, const EvalFlags & flags, const RunFolder & folder) const {
        if (!flags_.paper || !flags.json) {
            if (plan.runs.size() > 1 && !flags.json) { std::printf("chunks of %d\n", flags.chunk); }
            PITH_RETURN_IF_ERROR(report_eval(flags, folder, true));
        }
        std::optional<Comparison> pairs;
        PITH_ASSIGN_OR_RETURN(pairs, compare_pairs(part, folder));
        if (pairs && !flags.json && !flags.csv && !flags.svg) { print_pairs(*pairs, flags.markdown); }
        if (!flags_.paper) { return {}; }
        const EvalTable table = make_eval_table(folder.info(), folder.answers());
        const ComparedRun run{plan.stands_in ? nullptr : &table, tasks_of_part(part)};
        const std::vector<PaperComparison> rows = compare_with_paper(tables_, part.name, run, flags.details);
        if (flags.json) {
            PITH_RETURN_IF_ERROR(write_tables(folder));
            Json object = {{"study", study_.name}, {"part", part.name}, {"chunk", flags.chunk}};
            object["table"] = Json::parse(eval_json(table));
            object["paper"] = Json::parse(comparison_json(rows));
            if (pairs) { object["pairs"] = Json::parse(compare_json(*pairs))["rows"]; }
            print_json(object);
            return {};
        }
        print_comparison(rows, plan.stands_in ? "RULER stands in for the paper's data: nothing of it compares" : "",
                         run.table != nullptr);
        return {};
    }

    // What the paper says of its policies, tested on the same samples; nothing where it says nothing, or none of them ran. Kept
    // beside the answers.
    Result<std::optional<Comparison>> compare_pairs(const StudyPart & part, const RunFolder & folder) const {
        const std::string wanted = with_cake_preset(part.pairs, cake_preset_of(model_.info));
        if (wanted.empty()) { return std::optional<Comparison>(); }
        auto compared = compare_runs(folder, folder, {.policies = parse_pairs(wanted), .overall = true});
        if (!compared.ok()) { return std::optional<Comparison>(); }
        if (!folder.path().empty()) { PITH_RETURN_IF_ERROR(write_file(folder.path() + "/pairs.csv", compare_csv(*compared))); }
        return std::optional<Comparison>(std::move(*compared));
    }

    static void print_pairs(const Comparison & pairs, bool markdown) {
        std::puts("\nThe paper's claims (the second is the better one), on the same samples:");
        if (markdown) { std::puts(""); }
        std::fputs(compare_text(pairs, markdown).c_str(), stdout);
    }

    static void print_comparison(const std::vector<PaperComparison> & rows, const std::string & note, bool with_run) {
        std::puts("");
        if (!note.empty()) { std::puts(note.c_str()); }
        if (rows.empty()) { std::puts("The paper prints no numbers for it: a figure, or a setting of its text."); }
        std::fputs(comparison_text(rows, with_run).c_str(), stdout);
    }

    int measure_speed(const StudyPart & part, const PartPlan & plan) {
        PolicySpeedOptions options = plan.speed;
        options.cancel = &catch_interrupt();
        Result<std::vector<PolicySpeed>> rows = Status();
        {
            ProgressLine line("study");
            options.progress = [&line](const std::string & what) { line.show_text(what); };
            rows = measure_policy_speed(*run_.model, options);
        }
        if (!rows.ok()) { return fail(rows.status()); }
        Json object = {{"study", study_.name}, {"part", part.name}, {"model", flags_.eval.model.path}};
        object["rows"] = speed_json(*rows);
        const std::vector<PaperComparison> paper =
            flags_.paper ? compare_with_paper(tables_, part.name, {}, true) : std::vector<PaperComparison>();
        if (flags_.paper) { object["paper"] = Json::parse(comparison_json(paper)); }
        if (!flags_.eval.out.empty()) {
            const std::string path = flags_.eval.out + "/" + std::string(part.name) + ".json";
            if (const Status status = write_file(path, object.dump(2) + "\n"); !status.ok()) { return fail(status); }
        }
        if (flags_.eval.json) {
            print_json(object);
            return kExitOk;
        }
        std::fputs(speed_text(*rows).c_str(), stdout);
        if (flags_.paper) { print_comparison(paper, paper.empty() ? "" : "On the paper's machine and models:", false); }
        return kExitOk;
    }

    StudyFlags flags_;
    const Study & study_;
    std::vector<PaperTable> tables_;
    StudyModel model_;
    EvalRun run_;
};

Status check(const StudyFlags & flags) {
    PITH_RETURN_IF_ERROR(check_formats(flags.eval));
    if (flags.paper && (flags.eval.csv || flags.eval.markdown || flags.eval.svg)) {
        return {ErrorCode::kInvalidArgument, "--paper prints text or JSON: leave out --csv, --markdown and --svg"};
    }
    if (flags.paper && !flags.scorer_options.empty()) {
        return {ErrorCode::kInvalidArgument, "--paper's numbers are of the paper's own settings: leave out --scorer-option"};
    }
    for (const std::string & option : flags.scorer_options) {
        const size_t equals = option.find('=');
        if (equals == std::string::npos || equals == 0 || option.find_first_of(":+,<") != std::string::npos) {
            return {ErrorCode::kInvalidArgument, "--scorer-option '" + option + "' is not NAME=VALUE, as in pool=avg45"};
        }
        if (!is_scorer_option(option.substr(0, equals))) {
            return {ErrorCode::kInvalidArgument,
                    "--scorer-option '" + option + "': no scorer has this option; `pith policies` lists them"};
        }
    }
    return {};
}

int study_command(StudyFlags flags) {
    if (const Status status = check(flags); !status.ok()) { return fail_usage(status); }
    if (flags.list && flags.name.empty() && !flags.paper) {
        flags.eval.json ? list_as_json(nullptr) : list_studies();
        return kExitOk;
    }
    std::vector<std::string> names;
    for (const Study & study : studies()) { names.emplace_back(study.name); }
    const Study * study = find_study(flags.name);
    if (study == nullptr) {
        if (flags.name.empty()) { return fail_usage("name a study: " + join(names, ", ")); }
        return fail_usage("unknown study '" + flags.name + "'" +
                          did_you_mean(flags.name, names, ": there are " + join(names, ", ")));
    }
    if (!flags.part.empty() && find_part(*study, flags.part) == nullptr) {
        std::vector<std::string> parts;
        for (const StudyPart & part : study->parts) { parts.emplace_back(part.name); }
        return fail_usage("study " + flags.name + " has no part '" + flags.part + "': there are " + join(parts, ", "));
    }
    if (flags.list && flags.paper) { return list_paper_numbers(*study, flags.part, flags.eval.details, flags.eval.json); }
    if (flags.list) {
        flags.eval.json ? list_as_json(study) : list_study(*study);
        return kExitOk;
    }
    return StudyRunner(flags, *study).run();
}

}  // namespace

void add_study_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<StudyFlags>();
    flags->eval.budgets.clear();
    flags->eval.chunk = 0;
    CLI::App * command = root.add_subcommand(kStudyWord.name, kStudyWord.help);
    command->add_option("NAME", flags->name, "Which study");
    command->add_option("--part", flags->part, "One of its parts alone");
    command->add_option("--context", flags->eval.lengths, "Other lengths than the study's")->delimiter(',');
    add(*command, option("--budget"), flags->eval.budgets, "Other budgets than the study's")->delimiter(',');
    command
        ->add_option(
            "--scorer-option", flags->scorer_options,
            "NAME=VALUE: an option for every policy of the study whose scorer has it, as in pool=avg45, in place of the "
            "study's own; may be repeated")
        ->allow_extra_args(false);
    command->add_option("--text", flags->eval.texts, "Text file for perplexity; may be repeated")->allow_extra_args(false);
    flags->eval.add_run_options(*command);
    flags->eval.evict_every = kStudysOwn;
    command->get_option("--evict-every")
        ->default_str("")
        ->description(
            "Other than the study's: evict again after so many "
            "tokens of question and answer; 0: never");
    flags->eval.add_format_options(*command);
    command->add_flag("--list", flags->list,
                      "Show the studies; of one study, each table and figure of its paper with the command that shows it");
    command->add_flag("--paper", flags->paper,
                      "The paper's own numbers beside those measured; with --list: alone, without running");
    command->callback([flags, &exit_code] { exit_code = study_command(*flags); });
}

}  // namespace pith::app
