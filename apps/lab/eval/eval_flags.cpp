// eval_flags.cpp - options of an evaluation: checked and completed.
#include "app/eval/eval_flags.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <utility>

#include "app/eval/samples_file.h"
#include "benchmarks/files/documents.h"
#include "common/base/args.h"
#include "common/base/read_text.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/text.h"
#include "device/cpu_count.h"
#include "eval/run_shards.h"
#include "model/head_importance_file.h"
#include "policy/policy.h"

namespace pith::app {
namespace {

constexpr const char * kPerplexity = "perplexity";
constexpr const char * kDefaultPolicies = "auto,snapkv,adakv,h2o,random";
constexpr int kGeneratedSamples = 10;   // of each task and length, where samples can be made without end
constexpr int kGeneratedLength = 1024;  // tokens
constexpr const char * kListShows = "; `pith eval --list` shows them";

std::vector<std::string> families() {
    std::vector<std::string> names;
    for (const auto & task : benchmarks::all_tasks()) {
        const std::string & family = task->rules().family;
        if (std::find(names.begin(), names.end(), family) == names.end()) { names.push_back(family); }
    }
    names.emplace_back(kPerplexity);
    return names;
}

bool exists(const std::string & path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
}

Result<std::vector<const benchmarks::Task *>> find_tasks(const EvalFlags & flags) {
    std::vector<const benchmarks::Task *> tasks;
    std::vector<std::string> names;
    for (const auto & task : benchmarks::all_tasks()) {
        if (task->rules().family != flags.family) { continue; }
        names.push_back(task->rules().name);
        const benchmarks::TaskRules & rules = task->rules();
        const bool possible =
            rules.file.empty() || (!flags.data.empty() && (exists(flags.data + "/" + rules.file) ||
                                                           (!rules.ready.empty() && exists(flags.data + "/" + rules.ready))));
        if (!rules.aside && (flags.tasks == "all" || (flags.tasks.empty() && possible))) { tasks.push_back(task.get()); }
    }
    if (names.empty()) {
        return {ErrorCode::kInvalidArgument,
                "unknown benchmark '" + flags.family + "'" + did_you_mean(flags.family, families(), kListShows)};
    }
    if (flags.tasks.empty() && tasks.empty()) {
        if (flags.data.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "the tasks of " + flags.family + " are read from files: name the folder they are in with --data"};
        }
        return {ErrorCode::kNotFound, "'" + flags.data + "' has none of the data files of " + flags.family +
                                          "; `pith eval --list` shows their names"};
    }
    if (flags.tasks.empty() || flags.tasks == "all") { return tasks; }
    for (const std::string_view piece : split(flags.tasks, ',')) {
        const std::string name(trim(piece));
        const benchmarks::Task * task = benchmarks::find_task(flags.family, name);
        if (task == nullptr) {
            return {ErrorCode::kInvalidArgument,
                    flags.family + " has no task '" + name + "'" + did_you_mean(name, names, kListShows)};
        }
        if (std::find(tasks.begin(), tasks.end(), task) == tasks.end()) { tasks.push_back(task); }
    }
    return tasks;
}

// Samples that were made before lie in the data folder.
bool has_ready_samples(const EvalFlags & flags, const benchmarks::Task & task) {
    const std::string & ready = task.rules().ready;
    return !ready.empty() && !flags.data.empty() && exists(flags.data + "/" + ready);
}

// A family whose samples are made here: as many and as long as one likes.
bool is_generated(const std::string & family) {
    return std::any_of(benchmarks::all_tasks().begin(), benchmarks::all_tasks().end(),
                       [&](const auto & task) { return task->rules().family == family && task->rules().file.empty(); });
}

}  // namespace

void EvalFlags::add_run_options(CLI::App & command) {
    model.add_to(command, false);
    add(command, option("--seed"), seed, "Seed of generated samples")->capture_default_str();
    command.add_option_function<std::string>(
        "--samples", [this](const std::string & text) { take_samples(text); },
        "Samples of each task and context, the first so many; all (default: 10 where they are generated and of a perplexity, "
        "else all)");
    command.add_option("--data", data, "Folder with the benchmark's data files, as it publishes them");
    command.add_option("--haystack", haystack, "Text file that needles are hidden in (default: the built-in generator's)");
    add(command, option("--chunk"), chunk,
        "Tokens of a batch, and of a chunk with --prefill chunked (default: " + std::to_string(kDefaultChunk) + ")");
    add(command, option("--evict-every"), evict_every, "Evict again after so many tokens of question and answer; 0: never")
        ->capture_default_str();
    add_heads_option(command, heads);
    cache.add_to(command);
    cold.add_to(command);
    cold.add_repair_every_to(command);
    add(command, option("--threads"), n_threads, "Threads of a job (default: the cores, shared among the jobs)");
    add(command, option("--parallel"), n_parallel,
        "Answers of a job that decode together, in one batch; 1: one after the other")
        ->capture_default_str();
    command.add_option("--jobs", n_jobs,
                       "Batches at once, with -t threads each (default: as many as there are cores, or prompts; 1 with "
                       "devices, where they take turns)");
    add(command, option("--ctx-size"), n_ctx, "Tokens the model takes (default: what it was trained on)");
    command.add_option("-n,--n-predict,--max-new", n_new,
                       "Tokens of an answer at most, where the task allows more: a cache that has lost what is asked rambles");
    add(command, option("--raw"), raw);
    command.add_flag("--no-share", no_share,
                     "A prefill for each policy and budget, instead of one for all: slower, same answers");
    command.add_option("--prefill-cache", prefill_cache,
                       "Folder where prompts that were read are kept, whole caches, so that another run on them begins there; "
                       "same answers");
    command.add_option("-o,--out", out, "Folder of the run: answers are kept there as they come, the same command goes on");
    command.add_flag("--resume", resume, "Go on with the run in --out; an error if there is none");
    command.add_flag("--keep-prompts", keep_prompts, "Write what was read for each answer into answers.jsonl, too");
}

void EvalFlags::take_samples(const std::string & text) {
    all_samples = text == "all";
    n_samples = 0;
    if (!all_samples && (!CLI::detail::lexical_cast(text, n_samples) || n_samples < 1)) {
        throw CLI::ValidationError("--samples", "is " + text + ": give 1 or more, or all");
    }
}

void EvalFlags::add_what_options(CLI::App & command) {
    command.add_option(
        "--tasks", tasks,
        "Tasks, separated by ',' (default: all whose data is there; all: every one; but those that `pith eval --list` "
        "calls 'by name' only where they are named)");
    command
        .add_option("--context", lengths,
                    "Lengths in tokens, separated by ','; question and answer included (default: 1024 where samples are "
                    "generated, else as long as the data is)")
        ->delimiter(',');
    add(command, option("--policy"), policies,
        "Policies, separated by ','; all: every one there is. The full cache is always there (default: gated "
        "with --gate, else " +
            std::string(kDefaultPolicies) + ")");
    add(command, option("--budget"), budgets, "Budgets, separated by ',': tokens per head, or shares of what is compressed")
        ->delimiter(',')
        ->capture_default_str();
    command
        .add_option(
            "--text", texts,
            "perplexity: text file, or .jsonl with a text in each line's `chapter` or `text` (BookSum …); may be repeated "
            "(default: the built-in generator)")
        ->allow_extra_args(false);
    command.add_flag("--guided", guided,
                     "With --question-aware and --prefill chunked: every chunk is judged by the question, too");
    command.add_flag("--question-aware", question_aware,
                     "Compress context and question together (default: the context alone, the question comes later)");
    add(command, option("--prefill"), prefill,
        "When to evict: one-shot (after the whole prompt), chunked, auto (as `pith run` would)")
        ->capture_default_str();
    CLI::Option * const part = command.add_option(
        "--shard", shard,
        "A part of the run alone, 2/4 for the second of four, in a folder of its own (-o); `pith eval merge` puts "
        "the parts together");
    command
        .add_option("--write-samples", write_samples, "Write the samples to this file, a line of JSON each, and ask nothing")
        ->excludes(part);
    command.add_option("--samples-file", samples_file,
                       "Ask the samples that --write-samples wrote, which name benchmark, tasks and lengths themselves");
    CLI::Option * const rulers =
        command
            .add_flag("--ruler-form", ruler_form,
                      "Write the samples of one task of RULER at one length as its own validation.jsonl")
            ->needs("--write-samples");
    command
        .add_flag("--with-tokens", with_tokens,
                  "Write the prompts' tokens, too, for a program without this model's tokeniser and chat template")
        ->needs("--write-samples")
        ->excludes(rulers);
}

void EvalFlags::add_format_options(CLI::App & command) {
    command.add_flag("--details", details, "Of several tasks: one more table each, with intervals and groups");
    add(command, option("--json"), json, "The table as JSON on standard output");
    command.add_flag("--csv", csv, "The table as comma-separated values");
    command.add_flag("--markdown", markdown, "The table as Markdown");
    command.add_flag("--svg", svg, "Figures as SVG");
}

Status check_formats(const EvalFlags & flags) {
    const int n = int{flags.json} + int{flags.csv} + int{flags.markdown} + int{flags.svg};
    if (n <= 1) { return {}; }
    return {ErrorCode::kInvalidArgument, "--json, --csv, --markdown, --svg: give one of them (a run's folder has them all)"};
}

int EvalFlags::jobs(size_t n_prompts) const {
    if (n_jobs > 0) { return n_jobs; }
    if (model.devices.any()) { return 1; }  // they would take turns
    const auto most = static_cast<int>(std::min<size_t>(std::max<size_t>(n_prompts, 1), INT_MAX));
    return std::clamp(available_cpus() / std::max(1, n_threads), 1, most);
}

int EvalFlags::threads(size_t n_prompts) const {
    if (n_threads > 0) { return n_threads; }
    const int n = jobs(n_prompts);
    return n == 1 ? 0 : std::max(1, available_cpus() / n);
}

Status EvalFlags::check() const {
    PITH_RETURN_IF_ERROR(check_formats(*this));
    PITH_RETURN_IF_ERROR(check_at_least("--samples", n_samples, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--chunk", chunk, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--evict-every", evict_every, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--threads", n_threads, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--jobs", n_jobs, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--parallel", n_parallel, 1));
    PITH_RETURN_IF_ERROR(check_at_least("--ctx-size", n_ctx, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--max-new", n_new, 0));
    for (const int length : lengths) { PITH_RETURN_IF_ERROR(check_at_least("--context", length, 0)); }
    PITH_RETURN_IF_ERROR(parse_prefill(prefill).status());
    if (!prefill_cache.empty() && (n_parallel > 1 || family == kPerplexity)) {
        return {ErrorCode::kInvalidArgument,
                "--prefill-cache keeps prompts that are read one by one and asked about: leave it "
                "out with --parallel above 1, and of perplexity"};
    }
    if (cold.keeps() && (!prefill_cache.empty() || family == kPerplexity)) {
        return {ErrorCode::kInvalidArgument,
                "--cold keeps what a policy evicts until a question looks for it: leave it out with --prefill-cache, and of "
                "perplexity, where nothing is asked"};
    }
    if (resume && out.empty()) { return {ErrorCode::kInvalidArgument, "--resume needs the folder of the run: add -o FOLDER"}; }
    if (!shard.empty()) {
        if (const auto part = parse_shard(shard); !part.ok()) {
            return {ErrorCode::kInvalidArgument, "--shard: " + part.status().wording()};
        }
        if (out.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "--shard needs a folder for this part, which `pith eval merge` reads: add -o FOLDER"};
        }
    }
    if (family.empty() && samples_file.empty()) {
        return {ErrorCode::kInvalidArgument,
                "name a benchmark: " + join(families(), ",") + "; `pith eval --list` shows their tasks"};
    }
    if (family == kPerplexity) {
        if (!tasks.empty() || question_aware || guided || !data.empty() || !haystack.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "perplexity asks no questions: leave out --tasks, --question-aware, --data and --haystack"};
        }
        if (n_new > 0 || !samples_file.empty()) {
            return {ErrorCode::kInvalidArgument, "perplexity answers nothing: leave out --max-new and --samples-file"};
        }
        return {};
    }
    if (guided && (!question_aware || prefill != "chunked")) {
        return {ErrorCode::kInvalidArgument,
                "--guided judges chunks by the question: give --question-aware and --prefill chunked, too"};
    }
    if (!texts.empty()) { return {ErrorCode::kInvalidArgument, "--text is for perplexity; essays go in with --haystack"}; }
    if (!samples_file.empty()) { return {}; }  // it says itself what its tasks are
    const auto found = find_tasks(*this);
    return found.ok() || found.status().code() == ErrorCode::kNotFound ? Status() : found.status();  // files come later
}

Result<EvalOptions> eval_options(const EvalFlags & flags, const std::string & model_path) {
    EvalOptions options;
    options.family = flags.family;
    const bool perplexity = flags.family == kPerplexity;
    const bool has_samples = !flags.samples_file.empty();
    if (has_samples) {
        PITH_RETURN_IF_ERROR(read_samples_file(flags, options));
    } else if (!perplexity) {
        PITH_ASSIGN_OR_RETURN(options.tasks, find_tasks(flags));
    }
    const bool generated = perplexity ? flags.texts.empty() : !has_samples && is_generated(flags.family);
    if (!has_samples) { options.lengths = flags.lengths; }
    const bool needs_length = std::any_of(options.tasks.begin(), options.tasks.end(), [&](const auto * task) {
        return task->rules().file.empty() && !has_ready_samples(flags, *task);
    });
    // A file's samples are as long as they are; those that are made here, or cut to a length here, are given one.
    const bool all_ready =
        !options.tasks.empty() && std::all_of(options.tasks.begin(), options.tasks.end(),
                                              [&](const auto * task) { return has_ready_samples(flags, *task); });
    if (options.lengths.empty()) { options.lengths = {perplexity || (generated && !all_ready) ? kGeneratedLength : 0}; }
    for (const int length : options.lengths) {
        if (length == 0 && needs_length && !has_samples) {
            return {ErrorCode::kInvalidArgument,
                    "--context is 0: the samples of " + flags.family + " are generated, give the length they are to have"};
        }
    }
    if (generated && flags.all_samples) {
        return {ErrorCode::kInvalidArgument, "--samples all: these samples are generated, as many as one likes: give a number"};
    }
    const bool takes_all = flags.all_samples || !(generated || perplexity);
    options.n_samples = flags.n_samples > 0 ? flags.n_samples : takes_all ? 0 : kGeneratedSamples;
    const bool has_gates = !flags.model.gate.empty();
    const std::string policies = !flags.policies.empty() ? flags.policies : has_gates ? "gated" : kDefaultPolicies;
    PITH_ASSIGN_OR_RETURN(options.policies,
                          policies_of_list(policies, has_importance(flags.heads, model_path, flags.model.is_adapted()),
                                           has_gates ? GatePolicies::kAll : GatePolicies::kNone));
    for (const std::string & text : flags.budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    for (const benchmarks::Task * task : has_samples ? std::vector<const benchmarks::Task *>() : options.tasks) {
        const std::string & ready = task->rules().ready;
        if (has_ready_samples(flags, *task)) {
            PITH_ASSIGN_OR_RETURN(options.files[ready], read_text(flags.data + "/" + ready));
            continue;
        }
        const std::string & file = task->rules().file;
        if (file.empty() || options.files.count(file) > 0) { continue; }
        const std::string path = flags.data + "/" + file;
        if (flags.data.empty() || !exists(path)) {
            return {ErrorCode::kNotFound,
                    "task " + task->rules().name + " reads '" + (flags.data.empty() ? file : path) +
                        "', which does not exist: name the folder with the benchmark's files with --data, "
                        "or leave the task out of --tasks"};
        }
        PITH_ASSIGN_OR_RETURN(options.files[file], read_text(path));
    }
    if (!flags.haystack.empty()) {
        PITH_ASSIGN_OR_RETURN(options.haystack, read_text(flags.haystack));
        if (options.haystack.empty()) {
            return {ErrorCode::kInvalidArgument,
                    "--haystack: '" + flags.haystack + "' is empty; give a text, or leave it out for the built-in stories"};
        }
    }
    for (const std::string & path : flags.texts) {
        PITH_ASSIGN_OR_RETURN(std::string text, read_text(path));
        if (!path.ends_with(".jsonl")) {
            options.texts.push_back(std::move(text));
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const std::vector<std::string> documents, benchmarks::read_documents(text, path));
        options.texts.insert(options.texts.end(), documents.begin(), documents.end());
    }
    options.seed = flags.seed;
    options.question_aware = flags.question_aware;
    options.guided = flags.guided;
    options.raw = flags.raw;
    options.share = !flags.no_share;
    options.n_ctx = flags.n_ctx;
    options.n_new = flags.n_new;
    options.keep_prompts = flags.keep_prompts;
    options.prefill_cache = flags.prefill_cache;
    if (!options.prefill_cache.empty()) {
        std::error_code error;
        std::filesystem::create_directories(options.prefill_cache, error);
        if (error) {
            return {ErrorCode::kIo, "--prefill-cache: '" + options.prefill_cache + "' cannot be made: " + error.message()};
        }
    }
    PITH_RETURN_IF_ERROR(flags.cache.set(options.session));
    PITH_RETURN_IF_ERROR(flags.cold.set(options.session));
    warn_of_coarse_keys(options.session);
    PITH_ASSIGN_OR_RETURN(options.session.prefill, parse_prefill(flags.prefill));
    options.session.chunk = flags.chunk;
    options.session.evict_every = flags.evict_every;
    options.session.heads_file = flags.heads;
    return options;
}

}  // namespace pith::app
