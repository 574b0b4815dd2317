// eval_score.cpp - reads the files, has them scored, prints the table.
#include "app/eval/eval_score.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/base/errors.h"
#include "common/base/flag_names.h"
#include "common/base/read_text.h"
#include "common/options/options.h"
#include "eval/report/score_report.h"
#include "eval/run_folder.h"

namespace pith::app {
namespace {

struct ScoreFlags {
    std::vector<std::string> files;
    std::string task;
    std::string data;
    bool json = false, csv = false, markdown = false, each = false;
};

// A run's folder stands for its answers, and knows which benchmark they are of.
Result<PredictionFile> read_predictions(const std::string & path, const benchmarks::Task * task) {
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(path, error);
    PredictionFile file;
    file.name = is_folder ? path + "/answers.jsonl" : path;
    file.task = task;
    if (is_folder) {
        PITH_ASSIGN_OR_RETURN(const std::unique_ptr<RunFolder> run, RunFolder::read(path));
        file.family = run->info().family;
    }
    PITH_ASSIGN_OR_RETURN(file.text, read_text(file.name));
    return file;
}

Result<std::string> read_data(const std::string & folder, const std::string & file) {
    if (folder.empty()) {
        return {ErrorCode::kNotFound, "name the folder with the benchmark's own '" + file + "' with --data"};
    }
    return read_text(folder + "/" + file);
}

int score_command(const ScoreFlags & flags) {
    if (int{flags.json} + int{flags.csv} + int{flags.markdown} + int{flags.each} > 1) {
        return fail_usage("--json, --csv, --markdown, --each: give one of them");
    }
    const benchmarks::Task * task = nullptr;
    if (!flags.task.empty()) {
        const auto found = task_by_name(flags.task);
        if (!found.ok()) { return fail_usage("--task: " + message_of(found.status())); }
        task = *found;
    }
    std::vector<ScoredPredictions> rows;
    for (const std::string & path : flags.files) {
        const auto file = read_predictions(path, task);
        if (!file.ok()) { return fail(file.status()); }
        const auto scored = score_predictions(*file, [&](const std::string & name) { return read_data(flags.data, name); });
        if (!scored.ok()) {
            return scored.status().code() == ErrorCode::kInvalidArgument ? fail_usage(scored.status()) : fail(scored.status());
        }
        rows.insert(rows.end(), scored->begin(), scored->end());
    }
    const TextTable table = score_table(rows);
    const std::string text = flags.each       ? score_lines(rows)
                             : flags.json     ? score_json(rows)
                             : flags.csv      ? to_csv(table)
                             : flags.markdown ? to_markdown(table)
                                              : to_text(table);
    std::fwrite(text.data(), 1, text.size(), stdout);
    return kExitOk;
}

}  // namespace

void add_score_command(CLI::App & eval, int & exit_code) {
    auto flags = std::make_shared<ScoreFlags>();
    CLI::App * command =
        eval.add_subcommand("score", "Predictions made elsewhere, scored by the task's own metric: JSON lines as published");
    command->add_option("FILE", flags->files, "Files of predictions, or folders of runs")->required();
    command->add_option("--task", flags->task,
                        "FAMILY/NAME (default: by the lines' `task` or `dataset`, else by the file's name: "
                        "preds_kv_retrieval.jsonl)");
    command->add_option("--data", flags->data,
                        "Folder with the benchmark's data files, for what a metric needs and the predictions lack");
    add(*command, option("--json"), flags->json, "One JSON object");
    command->add_flag("--csv", flags->csv, "Comma-separated values");
    command->add_flag("--markdown", flags->markdown, "Markdown");
    command->add_flag("--each", flags->each, "No table, but a line of JSON for each prediction, with its score");
    command->callback([flags, &exit_code] { exit_code = score_command(*flags); });
}

}  // namespace pith::app
