// inspect.cpp - `pith inspect`: what policies keep of a text, lane by lane, and what that changes; or what gates keep.
#include "eval/inspect.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "corpus/tasks.h"
#include "engine_flags.h"
#include "errors.h"
#include "eval/inspect_gates.h"
#include "eval/inspect_texts.h"
#include "eval/policy_cases.h"
#include "foreign_text.h"
#include "inspect_gates.h"
#include "inspect_report.h"
#include "interrupt.h"
#include "model/write_file.h"
#include "policy/policy.h"
#include "progress.h"
#include "read_text.h"
#include "reference_model.h"
#include "text/prompt.h"

namespace pith::app {
namespace {

constexpr const char * kDefaultPolicies = "snapkv,adakv,h2o,random";
constexpr const char * kDefaultBudget = "20%";

struct InspectFlags {
    ModelFlags model;
    CacheFlags cache{"f32", "f32"};
    std::string file;
    std::string token_ids;  // a file of them: the whole text
    std::string prompt;
    std::string policies;              // empty: the gates with --gate, else kDefaultPolicies
    std::vector<std::string> budgets;  // empty: kDefaultBudget
    std::string heads;
    std::string out;
    std::vector<std::string> formats = {"csv", "json", "svg"};
    std::vector<std::string> figures;  // of inspect.svg; empty: all
    int n_tokens = 1024;
    int n_texts = 1;
    int n_threads = 0;
    int chunk = 512;
    uint64_t seed = 1;
    std::optional<int> attention_layer;  // --gate-attention
    bool raw = false;
    bool json = false;

    // What is looked at: what the gates keep, or what policies keep.
    bool wants_gates() const { return !model.gate.empty() && policies.empty(); }
};

Status check_figures(const InspectFlags & flags) {
    if (flags.figures.empty()) { return {}; }
    if (flags.wants_gates()) {
        return {ErrorCode::kInvalidArgument, "--figure chooses among the figures of policies: leave it out, or add --policy"};
    }
    if (flags.out.empty()) { return {ErrorCode::kInvalidArgument, "--figure chooses what --out draws: add --out FOLDER"}; }
    const std::vector<std::string> known = inspection_figures();
    for (const std::string & name : flags.figures) {
        if (std::ranges::find(known, name) != known.end()) { continue; }
        std::string list;
        for (const std::string & one : known) { list += (list.empty() ? "" : ", ") + one; }
        return {ErrorCode::kInvalidArgument, "--figure '" + name + "' is none of them: there are " + list};
    }
    return {};
}

// What can be said of the flags whatever is looked at.
Status check_flags(const InspectFlags & flags) {
    for (const std::string & format : flags.formats) {
        if (format != "csv" && format != "json" && format != "svg") {
            return {ErrorCode::kInvalidArgument, "--format is '" + format + "': give csv, json or svg, or several"};
        }
    }
    for (const auto & [name, value, low] : {std::tuple{"--threads", flags.n_threads, 0}, std::tuple{"--chunk", flags.chunk, 1},
                                            std::tuple{"--texts", flags.n_texts, 1}}) {
        if (value < low) {
            return {ErrorCode::kInvalidArgument,
                    std::string(name) + " is " + std::to_string(value) + ": give " + std::to_string(low) + " or more"};
        }
    }
    if (!flags.prompt.empty() && flags.file.empty() && !flags.wants_gates()) {
        return {ErrorCode::kInvalidArgument, "-p asks about the text of -f: give both, or neither for the built-in text"};
    }
    if (!flags.token_ids.empty() && (!flags.file.empty() || !flags.prompt.empty())) {
        return {ErrorCode::kInvalidArgument, "--token-ids is the whole text: leave out -f and -p"};
    }
    PITH_RETURN_IF_ERROR(check_figures(flags));
    const bool own_text = !flags.file.empty() || !flags.prompt.empty() || !flags.token_ids.empty();
    if (flags.n_texts > 1 && (own_text || !flags.out.empty() || flags.attention_layer)) {
        return {ErrorCode::kInvalidArgument, "--texts " + std::to_string(flags.n_texts) +
                                                 " is a table over built-in texts: leave out -f, -p, --token-ids, --out and "
                                                 "--gate-attention, or look at one text"};
    }
    if (flags.wants_gates() && !flags.budgets.empty()) {
        return {
            ErrorCode::kInvalidArgument,
            "--gate without --policy shows what the gates keep, whatever the budget: leave out --budget, or add --policy gate"};
    }
    if (flags.attention_layer && !flags.wants_gates()) {
        return {ErrorCode::kInvalidArgument, "--gate-attention looks at gates: give --gate FILE, and no --policy"};
    }
    if (flags.attention_layer && *flags.attention_layer < 0) {
        return {ErrorCode::kInvalidArgument,
                "--gate-attention is " + std::to_string(*flags.attention_layer) + ": layers count from 0"};
    }
    if (flags.attention_layer && flags.out.empty()) {
        return {ErrorCode::kInvalidArgument, "--gate-attention is a figure and tables: add --out FOLDER"};
    }
    return {};
}

Result<InspectOptions> inspect_options(const InspectFlags & given) {
    InspectFlags flags = given;
    if (flags.policies.empty()) { flags.policies = kDefaultPolicies; }
    if (flags.budgets.empty()) { flags.budgets = {kDefaultBudget}; }
    InspectOptions options;
    PITH_ASSIGN_OR_RETURN(const std::vector<std::string> policies,
                          policies_of_list(flags.policies, has_importance(flags.heads, flags.model.path),
                                           flags.model.gate.empty() ? GatePolicies::kNone : GatePolicies::kScorer));
    for (const std::string & name : policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, Policy::parse(name));
        if (policy.evicts()) { options.policies.push_back(name); }  // `full` is what all are compared with
    }
    if (options.policies.empty()) {
        return {ErrorCode::kInvalidArgument,
                "--policy " + flags.policies + " evicts nothing: give policies to compare with full"};
    }
    for (const std::string & text : flags.budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    PITH_ASSIGN_OR_RETURN(options.type_k, parse_kv_type(flags.cache.type_k));
    PITH_ASSIGN_OR_RETURN(options.type_v, parse_kv_type(flags.cache.type_v));
    options.n_threads = flags.n_threads;
    options.chunk = flags.chunk;
    options.heads_file = flags.heads;
    options.keep_scores = flags.n_texts == 1 && (flags.json || !flags.out.empty());
    return options;
}

// The ids of --token-ids; the text of -f and the question of -p, or the prompt of -p alone; else a fact hidden in the built-in
// text of this index, asked for.
Result<std::vector<int32_t>> read_tokens(const InspectFlags & flags, const Tokenizer & tokenizer, int index) {
    if (!flags.token_ids.empty()) {
        PITH_ASSIGN_OR_RETURN(std::vector<int32_t> ids, read_token_ids(flags.token_ids));
        PITH_RETURN_IF_ERROR(check_token_ids(ids, tokenizer.n_vocab()));
        return ids;
    }
    PromptRequest request;
    if (!flags.file.empty()) {
        PITH_ASSIGN_OR_RETURN(request.context, read_text(flags.file));
        request.questions = {flags.prompt};
        request.use_template = !flags.raw && tokenizer.has_chat_template();
        if (request.context.empty()) { return {ErrorCode::kInvalidArgument, "'" + flags.file + "' has no text"}; }
    } else if (!flags.prompt.empty()) {
        request.questions = {flags.prompt};
        request.use_template = !flags.raw && tokenizer.has_chat_template();
    } else {
        corpus::TaskOptions options;
        options.n_tokens = flags.n_tokens;
        options.seed = flags.seed;
        options.index = static_cast<uint64_t>(index);
        const corpus::CountTokens count = [&tokenizer](std::string_view text) {
            const auto tokens = tokenizer.encode(text, false, false);
            return tokens.ok() ? static_cast<int>(tokens->size()) : 0;
        };
        PITH_ASSIGN_OR_RETURN(const corpus::Task task, corpus::make_task("single", options, count));
        request.context = task.context;
        request.questions = {task.question + task.answer_prefix};
        request.use_template = false;
    }
    PITH_ASSIGN_OR_RETURN(const Prompt prompt, build_prompt(tokenizer, request));
    return prompt.whole(0);
}

bool wants(const InspectFlags & flags, const char * format) {
    return std::ranges::find(flags.formats, format) != flags.formats.end();
}

Status write_files(const InspectFlags & flags, const std::vector<NamedText> & files) {
    std::error_code error;
    std::filesystem::create_directories(flags.out, error);
    if (error) { return {ErrorCode::kIo, "'" + flags.out + "' cannot be made: " + error.message()}; }
    for (const NamedText & file : files) {
        PITH_RETURN_IF_ERROR(write_file((std::filesystem::path(flags.out) / file.name).string(), file.text));
    }
    std::fprintf(stderr, "written to %s\n", flags.out.c_str());
    return {};
}

std::string text_of(const Json & json) {
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<NamedText> files_of(const InspectFlags & flags, const Inspection & inspection, const Tokenizer & tokenizer) {
    std::vector<NamedText> files;
    if (wants(flags, "csv")) { files = inspection_csv(inspection, tokenizer); }
    if (wants(flags, "json")) { files.push_back({"inspect.json", text_of(inspection_json(inspection, tokenizer))}); }
    if (wants(flags, "svg")) { files.push_back({"inspect.svg", inspection_svg(inspection, flags.figures)}); }
    return files;
}

std::vector<NamedText> files_of(const InspectFlags & flags, const std::vector<GateInspection> & one,
                                const Tokenizer & tokenizer) {
    std::vector<NamedText> files;
    if (wants(flags, "csv")) { files = gates_csv(one.front(), tokenizer); }
    if (wants(flags, "json")) { files.push_back({"gate.json", text_of(gates_json(one, tokenizer))}); }
    if (wants(flags, "svg")) { files.push_back({"gate.svg", gates_svg(one.front())}); }
    return files;
}

// --gate without --policy.
int inspect_gates_command(const InspectFlags & flags, const Model & model, const Tokenizer & tokenizer) {
    InspectGatesOptions options;
    const auto type_k = parse_kv_type(flags.cache.type_k), type_v = parse_kv_type(flags.cache.type_v);
    if (!type_k.ok()) { return fail_usage(type_k.status().message()); }
    if (!type_v.ok()) { return fail_usage(type_v.status().message()); }
    options.session.type_k = *type_k;
    options.session.type_v = *type_v;
    options.session.n_threads = flags.n_threads;
    options.session.chunk = flags.chunk;
    options.attention_layer = flags.attention_layer.value_or(-1);
    options.hooks.cancel = &catch_interrupt();
    std::vector<GateInspection> inspections;
    {
        ProgressLine line("inspect");
        for (int index = 0; index < flags.n_texts; ++index) {
            line.show_fraction(static_cast<double>(index) / flags.n_texts);
            const auto tokens = read_tokens(flags, tokenizer, index);
            if (!tokens.ok()) { return fail(tokens.status()); }
            auto one = inspect_gates(model, *tokens, options);
            if (!one.ok()) { return fail(one.status()); }
            inspections.push_back(std::move(*one));
        }
    }
    if (!flags.out.empty()) {
        const Status status = write_files(flags, files_of(flags, inspections, tokenizer));
        if (!status.ok()) { return fail(status); }
    }
    warn_of_foreign_prompt(model, inspections.front().tokens, flags.n_threads);
    if (flags.json) {
        print_json(gates_json(inspections, tokenizer));
    } else {
        print_gates(inspections, tokenizer);
    }
    return kExitOk;
}

int inspect_command(InspectFlags flags) {
    if (flags.model.path.empty()) {
        const auto path = reference_model();
        if (!path.ok()) { return fail(path.status()); }
        flags.model.path = *path;
    }
    if (const Status status = check_flags(flags); !status.ok()) { return fail_usage(status.message()); }
    auto options = inspect_options(flags);
    if (!options.ok()) { return fail_usage(options.status().message()); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    if (flags.wants_gates()) { return inspect_gates_command(flags, *model, *tokenizer); }
    options->cancel = &catch_interrupt();
    std::vector<Inspection> inspections;
    {
        ProgressLine line("inspect");
        options->progress = [&](int n_done, int n_total) {
            const double texts = static_cast<double>(inspections.size()) + static_cast<double>(n_done) / n_total;
            line.show_fraction(texts / flags.n_texts);
        };
        for (int index = 0; index < flags.n_texts; ++index) {
            const auto tokens = read_tokens(flags, *tokenizer, index);
            if (!tokens.ok()) { return fail(tokens.status()); }
            auto one = inspect(*model, *tokens, *options);
            if (!one.ok()) { return fail(one.status()); }
            inspections.push_back(std::move(*one));
        }
    }
    const auto foreign = std::ranges::max_element(inspections, {}, &Inspection::perplexity);
    if (flags.n_texts > 1) {
        warn_of_foreign_prompt(foreign->perplexity, model->info().n_vocab);
        const std::vector<TextsRow> rows = summarise_texts(inspections);
        if (flags.json) {
            print_json(texts_json(rows));
        } else {
            print_texts(rows);
        }
        return kExitOk;
    }
    const Inspection * inspection = &inspections.front();
    if (!flags.out.empty()) {
        if (const Status status = write_files(flags, files_of(flags, *inspection, *tokenizer)); !status.ok()) {
            return fail(status);
        }
    }
    warn_of_foreign_prompt(foreign->perplexity, model->info().n_vocab);
    if (flags.json) {
        print_json(inspection_json(*inspection, *tokenizer));
    } else {
        print_inspection(*inspection);
    }
    return kExitOk;
}

}  // namespace

void add_inspect_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<InspectFlags>();
    CLI::App * command = root.add_subcommand(
        "inspect", "Show what policies keep of a text, and what that changes; with --gate and no --policy: what gates keep");
    flags->model.add_to(*command, false);
    command->add_option("-f,--file", flags->file, "Text ('-': standard input; default: a built-in one)");
    command->add_option("-p,--prompt", flags->prompt, "Question after the text; for --gate also a text of its own");
    command->add_option("--token-ids", flags->token_ids, "Token ids instead of text: a file of numbers ('-': standard input)");
    command->add_option("--policy", flags->policies, "Policies to compare, separated by ','; all: every one there is")
        ->default_str(kDefaultPolicies);
    command->add_option("--gate-attention", flags->attention_layer,
                        "With --gate and --out: also what the gate of this layer attends to");
    command->add_option("--budget", flags->budgets, "Budgets, separated by ',': entries per lane or shares of the text")
        ->delimiter(',')
        ->default_str(kDefaultBudget);
    add_heads_option(*command, flags->heads);
    flags->cache.add_to(*command);
    command->add_option("--out", flags->out, "Folder for the files");
    command->add_option("--format", flags->formats, "Which files: csv, json, svg")->delimiter(',')->capture_default_str();
    command
        ->add_option("--figure", flags->figures,
                     "Which figures inspect.svg has, separated by ',': layers, budgets, kept, mass, perturbation, novelty, "
                     "distances (default: all)")
        ->delimiter(',');
    command->add_option("--tokens", flags->n_tokens, "Length of the built-in text")->capture_default_str();
    command->add_option("--texts", flags->n_texts, "Built-in texts: more than one gives a table of means and 95 % intervals")
        ->capture_default_str();
    command->add_option("-s,--seed", flags->seed, "Seed of the built-in text")->capture_default_str();
    command->add_option("--chunk", flags->chunk, "Tokens of a batch")->capture_default_str();
    command->add_option("-t,--threads", flags->n_threads, "Threads (default: one per core; 1 for models under 32 MiB)");
    command->add_flag("--raw", flags->raw, "Leave out the model's chat template");
    command->add_flag("--json", flags->json, "One JSON object on standard output");
    command->callback([flags, &exit_code] { exit_code = inspect_command(*flags); });
}

}  // namespace pith::app
