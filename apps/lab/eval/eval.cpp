// eval.cpp - `pith eval`: benchmarks under policies and budgets; tables of runs, and runs side by side.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "app/eval/eval_flags.h"
#include "app/eval/eval_merge.h"
#include "app/eval/eval_report.h"
#include "app/eval/eval_score.h"
#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/lab_words.h"
#include "common/options/options.h"
#include "eval/report/compare_runs.h"
#include "figures/text_table.h"

namespace pith::app {
namespace {

void print(const std::string & text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
}

int list_command() {
    TextTable table;
    table.header = {"benchmark", "task", "metric", "data file", "what"};
    table.n_left = 5;
    for (const auto & task : benchmarks::all_tasks()) {
        const benchmarks::TaskRules & rules = task->rules();
        table.rows.push_back({rules.family, rules.name, rules.metric, rules.file.empty() ? "-" : rules.file,
                              (rules.aside ? "by name; " : "") + rules.help});
    }
    table.rows.push_back(
        {"perplexity", "-", "perplexity", "-", "likelihood of a text while the cache is evicted chunk by chunk"});
    print(to_text(table));
    return kExitOk;
}

struct CompareFlags {
    std::string first, second;
    std::string policies;
    std::vector<std::string> tasks;
    bool json = false, csv = false, markdown = false;
};

Result<std::vector<ComparePolicies>> policies_to_compare(const std::string & text) {
    if (text.empty()) { return std::vector<ComparePolicies>(); }
    const size_t comma = text.find(',');
    if (comma == std::string::npos || text.find(',', comma + 1) != std::string::npos) {
        return {ErrorCode::kInvalidArgument,
                "--policy is '" + text + "': give two, separated by ',': one of the first run, one of the second"};
    }
    return std::vector<ComparePolicies>{{text.substr(0, comma), text.substr(comma + 1)}};
}

int compare_command(const CompareFlags & flags) {
    if (int{flags.json} + int{flags.csv} + int{flags.markdown} > 1) {
        return fail_usage("--json, --csv, --markdown: give one of them");
    }
    const auto policies = policies_to_compare(flags.policies);
    if (!policies.ok()) { return fail_usage(policies.status()); }
    const auto first = RunFolder::read(flags.first);
    if (!first.ok()) { return fail(first.status()); }
    const auto second = RunFolder::read(flags.second);
    if (!second.ok()) { return fail(second.status()); }
    const std::string other = differing_samples((*first)->info(), (*second)->info());
    if (!other.empty()) {
        return fail({ErrorCode::kInvalidArgument, "the two runs are of other samples and cannot be paired: " + other});
    }
    const auto comparison = compare_runs(**first, **second, {.policies = *policies, .tasks = flags.tasks});
    if (!comparison.ok()) { return fail(comparison.status()); }
    print(flags.json  ? compare_json(*comparison)
          : flags.csv ? compare_csv(*comparison)
                      : compare_text(*comparison, flags.markdown));
    return kExitOk;
}

void add_compare(CLI::App & eval, int & exit_code) {
    auto flags = std::make_shared<CompareFlags>();
    CLI::App * command = eval.add_subcommand("compare", "Two runs of the same samples: differences, intervals, p-values");
    command->add_option("FIRST", flags->first, "Folder of a run")->required();
    command->add_option("SECOND", flags->second, "Folder of another, or of the same one")->required();
    add(*command, option("--policy"), flags->policies, "A,B: policy A of the first run against policy B of the second");
    command->add_option("--tasks", flags->tasks, "Tasks to compare and to average over, separated by ',' (default: all)")
        ->delimiter(',');
    add(*command, option("--json"), flags->json, "One JSON object");
    command->add_flag("--csv", flags->csv, "Comma-separated values");
    command->add_flag("--markdown", flags->markdown, "Markdown");
    command->callback([flags, &exit_code] { exit_code = compare_command(*flags); });
}

}  // namespace

void add_eval_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<EvalFlags>();
    auto list = std::make_shared<bool>(false);
    CLI::App * command = root.add_subcommand(kEvalWord.name, kEvalWord.help);
    command->require_subcommand(0, 1);
    command->add_option("FAMILY", flags->family, "Benchmark: ruler, needle, longbench, perplexity, …");
    flags->add_what_options(*command);
    flags->add_run_options(*command);
    flags->add_format_options(*command);
    for (const char * name : {"--context", "--seed", "--data", "--haystack", "--text", "--write-samples"}) {
        command->get_option("--samples-file")->excludes(command->get_option(name));  // it has all that these say
    }
    command->add_flag("--list", *list, "Show every benchmark and task");
    add_compare(*command, exit_code);
    add_report_command(*command, exit_code);
    add_score_command(*command, exit_code);
    add_merge_command(*command, exit_code);
    command->callback([flags, list, command, &exit_code] {
        if (!command->get_subcommands().empty()) { return; }
        exit_code = *list ? list_command() : run_eval(*flags);
    });
}

}  // namespace pith::app
