// eval_report.cpp - reads runs' folders, prints their tables and figures.
#include "app/eval/eval_report.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/eval/eval_flags.h"
#include "common/base/errors.h"
#include "common/options/options.h"
#include "core/text.h"
#include "eval/report/eval_report.h"
#include "eval/report/run_tables.h"

namespace pith::app {
namespace {

constexpr const char * kHeatMap = "heatmap";
constexpr const char * kMemory = "memory";

struct ReportFlags {
    EvalFlags table;  // its format
    std::vector<std::string> folders;
    std::vector<std::string> policies;  // empty: all
    std::vector<std::string> figures;   // empty: the table
};

struct Runs {
    std::vector<EvalTable> tables;
    std::unique_ptr<RunFolder> last;  // its answers; of several runs the tables are enough
};

bool has(const std::vector<std::string> & names, const std::string & name) {
    return std::ranges::find(names, name) != names.end();
}

Result<Runs> read_runs(const ReportFlags & flags) {
    Runs runs;
    for (const std::string & path : flags.folders) {
        PITH_ASSIGN_OR_RETURN(runs.last, RunFolder::read(path));
        EvalTable table = make_eval_table(runs.last->info(), runs.last->answers());
        if (!flags.policies.empty()) {
            Result<EvalTable> chosen = only_policies(std::move(table), flags.policies);
            if (!chosen.ok()) { return {chosen.status().code(), "--policy, '" + path + "': " + chosen.status().wording()}; }
            table = std::move(*chosen);
        }
        runs.tables.push_back(std::move(table));
    }
    return runs;
}

Status check_names(const std::vector<std::string> & figures, const Runs & runs) {
    std::vector<std::string> known = figure_names(runs.tables.front());
    known.insert(known.end(), {kHeatMap, kMemory});
    for (const std::string & name : figures) {
        if (has(known, name)) { continue; }
        return {ErrorCode::kInvalidArgument, "--figure '" + name + "' is none of this run: there are " + join(known, ", ")};
    }
    for (const char * page : {kHeatMap, kMemory}) {
        if (has(figures, page) && figures.size() > 1) {
            return {ErrorCode::kInvalidArgument, std::string("--figure ") + page + " is a page of its own: give it alone"};
        }
    }
    if (!has(figures, kHeatMap)) { return {}; }
    for (const EvalTable & table : runs.tables) {
        if (table.is_perplexity) {
            return {ErrorCode::kInvalidArgument,
                    "--figure heatmap shows scores from 0 to 100, and this run is of perplexities"};
        }
    }
    return {};
}

Result<std::string> report_of(const ReportFlags & flags) {
    PITH_ASSIGN_OR_RETURN(Runs runs, read_runs(flags));
    PITH_RETURN_IF_ERROR(check_names(flags.figures, runs));
    const bool single = flags.folders.size() == 1;
    const bool heat_map = has(flags.figures, kHeatMap);
    const bool memory = has(flags.figures, kMemory);
    if (single && !heat_map && !memory) {
        const EvalTable & table = runs.tables.front();
        const std::vector<Answer> & answers = runs.last->answers();
        return flags.figures.empty() ? table_as_asked(flags.table, table, answers) : eval_svg(table, answers, flags.figures);
    }
    if (!flags.table.csv && !heat_map && !memory) {
        return {ErrorCode::kInvalidArgument,
                "several folders go into --csv, --figure heatmap or --figure memory: give one of these, or one folder"};
    }
    const std::vector<RunTable> labels = labelled(std::move(runs.tables), flags.folders);
    return heat_map ? heat_map_svg(labels) : memory ? memory_svg(labels) : to_csv(columns_of_runs(labels));
}

int report_command(const ReportFlags & flags) {
    if (const Status status = check_formats(flags.table); !status.ok()) { return fail_usage(status); }
    const auto text = report_of(flags);
    if (!text.ok()) { return fail(text.status()); }
    std::fwrite(text->data(), 1, text->size(), stdout);
    return kExitOk;
}

}  // namespace

void add_report_command(CLI::App & eval, int & exit_code) {
    auto flags = std::make_shared<ReportFlags>();
    CLI::App * command = eval.add_subcommand("report", "The table of a run again, from its answers, and its figures");
    command->add_option("FOLDER", flags->folders, "Folder of a run, finished or not; several: --csv, heatmap and memory")
        ->required();
    flags->table.add_format_options(*command);
    add(*command, option("--policy"), flags->policies, "These policies alone, separated by ','")->delimiter(',');
    command
        ->add_option(
            "--figure", flags->figures,
            "These figures alone, as SVG, separated by ',': a task, average, depths, heads; or one of heatmap (policies "
            "by tasks) and memory (score by KV memory held)")
        ->delimiter(',')
        ->excludes("--details", "--json", "--csv", "--markdown", "--svg");
    command->callback([flags, &exit_code] {
        for (std::string & name : flags->figures) {
            if (name == "lanes") { name = "heads"; }  // its name until version 1
        }
        exit_code = report_command(*flags);
    });
}

}  // namespace pith::app
