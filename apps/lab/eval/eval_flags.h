// eval_flags.h - the options of `pith eval` and `pith study`, and how they become an evaluation.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/flags/engine_flags.h"
#include "eval/evaluate.h"
#include "eval/report/eval_table.h"

namespace pith::app {

// Answers that decode together: the built-in model's are short and its weights stay in the processor's caches, so that a run
// gains nothing from batches.
inline constexpr int kDefaultParallel = 1;

struct EvalFlags {
    ModelFlags model;
    std::string family;
    std::string tasks;  // names separated by ','; empty: what needs no file, or all with --data; "all"
    std::vector<int> lengths;
    std::string policies;  // empty: the usual ones, or gated where there are gates
    std::vector<std::string> budgets = {"20%"};
    int n_samples = 0;         // 0: none was given
    bool all_samples = false;  // --samples all
    uint64_t seed = 1;
    std::string data;      // folder
    std::string haystack;  // file
    std::vector<std::string> texts;
    bool question_aware = false;
    bool guided = false;
    std::string prefill = "one-shot";
    int chunk = kDefaultChunk;
    int evict_every = 0;
    std::string heads;
    CacheFlags cache;
    ColdFlags cold;
    int n_threads = 0;
    int n_jobs = 0;
    int n_parallel = kDefaultParallel;
    int n_ctx = 0;
    int n_new = 0;             // tokens of an answer at most; 0: as the task has it
    std::string samples_file;  // of --write-samples
    bool raw = false;
    bool no_share = false;
    std::string out;  // the run's folder
    bool resume = false;
    std::string shard;  // "2/4": this part of the run alone; empty: all of it
    bool json = false, csv = false, markdown = false, svg = false;
    bool details = false;
    std::string write_samples;
    bool ruler_form = false;
    bool with_tokens = false;
    bool keep_prompts = false;
    std::string prefill_cache;  // folder

    // What is evaluated on, how, and where to: everything but family, tasks, policies, budgets and lengths.
    void add_run_options(CLI::App & command);
    void add_what_options(CLI::App & command);
    void take_samples(const std::string & text);  // throws CLI11's error: neither a number nor "all"
    // Where the results go: --json, --csv, --markdown, --svg, --details.
    void add_format_options(CLI::App & command);

    // Checks what can be checked without a model. Errors: kInvalidArgument: a usage error.
    Status check() const;
    // For so many prompts: as many jobs as there are cores, or prompts; the cores are shared among the jobs.
    int jobs(size_t n_prompts) const;
    int threads(size_t n_prompts) const;  // of a session
};

// Reads data, haystack and texts, and fills in what was left open.
// Errors: kInvalidArgument, kNotFound (a data file: names it, and the task that wants it).
Result<EvalOptions> eval_options(const EvalFlags & flags, const std::string & model_path);

// What the answers depend on, by the names of the options. Errors: kNotFound, kIo.
Result<std::vector<std::pair<std::string, std::string>>> eval_settings(const EvalFlags & flags, const EvalOptions & options,
                                                                       const Model & model);

// What evaluations that follow each other share: the model and its tokeniser, loaded once; and what is done with the answers.
struct EvalRun {
    std::optional<Model> model;
    std::optional<Tokenizer> tokenizer;
    std::function<Status(const EvalFlags &, const RunFolder &)> report;  // empty: report_eval, files included

    Status load(const ModelFlags & flags);  // nothing, where they are loaded
};

// Loads the model, runs what is missing, prints the table. The exit code.
int run_eval(const EvalFlags & flags);
int run_eval(const EvalFlags & flags, EvalRun & run);

// The table of a folder as the flags want it; on stdout, and as files in the folder where `write` is set.
Status report_eval(const EvalFlags & flags, const RunFolder & folder, bool write);
// The same of a table, as text.
std::string table_as_asked(const EvalFlags & flags, const EvalTable & table, const std::vector<Answer> & answers);
// The table's files in the run's folder; nothing where it has none.
Status write_tables(const RunFolder & folder);

// Ok when at most one format was asked for.
Status check_formats(const EvalFlags & flags);

}  // namespace pith::app
