// inspect.cpp - `pith inspect`: what policies keep of a text, lane by lane, and what that changes; or what gates keep.
#include "inspect/inspect.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/inspect/inspect_attention.h"
#include "app/inspect/inspect_dump.h"
#include "app/inspect/inspect_gates.h"
#include "app/inspect/inspect_input.h"
#include "app/inspect/inspect_report.h"
#include "app/shell/commands.h"
#include "common/base/errors.h"
#include "common/base/foreign_text.h"
#include "common/base/interrupt.h"
#include "common/base/lab_words.h"
#include "common/base/progress.h"
#include "common/flags/engine_flags.h"
#include "common/options/options.h"
#include "core/check.h"
#include "core/text.h"
#include "engine/probe/policy_cases.h"
#include "file/write_file.h"
#include "inspect/inspect_average.h"
#include "inspect/inspect_gates.h"
#include "inspect/inspect_texts.h"
#include "policy/named_policy.h"

namespace pith::app {
namespace {

constexpr const char * kDefaultPolicies = "snapkv,adakv,h2o,random";
constexpr const char * kDefaultBudget = "20%";
constexpr std::string_view kDistances[] = {"cos", "pearson", "bc", "jsd", "l2"};

struct InspectFlags {
    ModelFlags model;
    CacheFlags cache{.type_k = "f32", .type_v = "f32"};
    InspectInput input;
    std::string policies;              // empty: the gates with --gate, else kDefaultPolicies
    std::vector<std::string> budgets;  // empty: kDefaultBudget
    std::string heads;
    std::string out;
    std::vector<std::string> formats = {"csv", "json", "svg"};
    std::vector<std::string> figures;  // of inspect.svg; empty: all
    std::string distance = "cos";
    int n_threads = 0;
    int chunk = kDefaultChunk;
    std::optional<int> attention_layer;  // --gate-attention
    std::vector<std::string> attention;  // LAYER:HEAD
    DumpFlags dump;
    bool json = false;

    // What is looked at: the model's own attention, what the gates keep, or what policies keep.
    bool wants_attention() const { return !attention.empty(); }
    bool wants_gates() const { return !model.gate.empty() && policies.empty() && !wants_attention(); }
};

Status check_figures(const InspectFlags & flags) {
    if (flags.figures.empty()) { return {}; }
    if (flags.wants_attention()) {
        return {ErrorCode::kInvalidArgument, "--figure chooses among the figures of policies: leave it out with --attention"};
    }
    if (flags.wants_gates()) {
        return {ErrorCode::kInvalidArgument, "--figure chooses among the figures of policies: leave it out, or add --policy"};
    }
    if (flags.out.empty()) { return {ErrorCode::kInvalidArgument, "--figure chooses what --out draws: add --out FOLDER"}; }
    const std::vector<std::string> known = inspection_figures();
    for (const std::string & name : flags.figures) {
        if (std::ranges::find(known, name) != known.end()) { continue; }
        return {ErrorCode::kInvalidArgument, "--figure '" + name + "' is none of them: there are " + join(known, ", ")};
    }
    return {};
}

Status check_attention(const InspectFlags & flags) {
    if (!flags.wants_attention()) { return {}; }
    if (!flags.policies.empty() || !flags.budgets.empty() || flags.attention_layer || flags.json) {
        return {
            ErrorCode::kInvalidArgument,
            "--attention draws maps of the model's own attention, as files: leave out --policy, --budget, --gate-attention and "
            "--json"};
    }
    if (flags.input.wants_means()) {
        return {ErrorCode::kInvalidArgument, "--attention draws one text: leave out --data and --texts"};
    }
    if (flags.out.empty()) { return {ErrorCode::kInvalidArgument, "--attention is a figure and tables: add -o FOLDER"}; }
    for (const auto & [name, type] : {std::pair{"-ctk", flags.cache.type_k}, std::pair{"-ctv", flags.cache.type_v}}) {
        if (type != "f32") {
            return {ErrorCode::kInvalidArgument,
                    std::string(name) + " is " + type + ", and --attention draws maps of an f32 cache: leave it out"};
        }
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
    const bool looks_at_others = !flags.policies.empty() || !flags.budgets.empty() || !flags.out.empty() || flags.json ||
                                 !flags.model.gate.empty() || flags.wants_attention();
    PITH_RETURN_IF_ERROR(flags.dump.check(flags.input, looks_at_others));
    PITH_RETURN_IF_ERROR(check_at_least("--threads", flags.n_threads, 0));
    PITH_RETURN_IF_ERROR(check_at_least("--chunk", flags.chunk, 1));
    if (std::ranges::find(kDistances, flags.distance) == std::end(kDistances)) {
        return {ErrorCode::kInvalidArgument, "--distance is '" + flags.distance + "': give cos, pearson, bc, jsd or l2"};
    }
    PITH_RETURN_IF_ERROR(flags.input.check(flags.wants_gates() || flags.wants_attention()));
    PITH_RETURN_IF_ERROR(check_figures(flags));
    if (flags.input.wants_means() && flags.wants_gates() && (!flags.out.empty() || flags.attention_layer)) {
        const std::string given = flags.input.data.empty() ? "--texts " + std::to_string(*flags.input.n_texts) : "--data";
        return {ErrorCode::kInvalidArgument,
                given + " gives a table over texts: leave out --out and --gate-attention, or look at one text"};
    }
    PITH_RETURN_IF_ERROR(check_attention(flags));
    if (flags.wants_gates() && !flags.budgets.empty()) {
        return {
            ErrorCode::kInvalidArgument,
            "--gate without --policy shows what the gates keep, whatever the budget: leave out --budget, or add --policy gate"};
    }
    if (flags.input.question_later && (flags.wants_gates() || flags.wants_attention())) {
        return {ErrorCode::kInvalidArgument,
                "--question-later is about what policies keep: leave it out with --attention, and with --gate add --policy"};
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
    PITH_ASSIGN_OR_RETURN(
        const std::vector<PolicyChoice> policies,
        policies_of_list(flags.policies, has_importance(flags.heads, flags.model.path, flags.model.is_adapted()),
                         flags.model.gate.empty() ? GatePolicies::kNone : GatePolicies::kScorer));
    for (const PolicyChoice & choice : policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, named_policy(choice));
        if (policy.evicts()) { options.policies.push_back(choice); }  // `full` is what all are compared with
    }
    if (options.policies.empty()) {
        return {ErrorCode::kInvalidArgument,
                "--policy " + flags.policies + " evicts nothing: give policies to compare with full"};
    }
    for (const std::string & text : flags.budgets) {
        PITH_ASSIGN_OR_RETURN(const Budget budget, Budget::parse(text));
        options.budgets.push_back(budget);
    }
    PITH_RETURN_IF_ERROR(flags.cache.set(options));
    options.n_threads = flags.n_threads;
    options.chunk = flags.chunk;
    options.heads_file = flags.heads;
    options.distance_by = flags.distance;
    options.keep_scores = !flags.input.wants_means() && (flags.json || !flags.out.empty());
    return options;
}

constexpr size_t kMostNamed = 5;  // texts that are left out: the others are counted

void warn_of_texts_left_out(const InspectTexts & texts) {
    for (size_t i = 0; i < std::min(kMostNamed, texts.left_out.size()); ++i) { warn(texts.left_out[i] + "; left out"); }
    if (texts.left_out.size() > kMostNamed) {
        warn(std::to_string(texts.left_out.size()) + " texts left out, " + std::to_string(texts.tokens.size()) + " looked at");
    }
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
    if (const Status status = flags.cache.set(options.session); !status.ok()) { return fail_usage(status); }
    options.session.n_threads = flags.n_threads;
    options.session.chunk = flags.chunk;
    options.attention_layer = flags.attention_layer.value_or(-1);
    options.hooks.cancel = &catch_interrupt();
    std::vector<GateInspection> inspections;
    const auto texts = read_inspect_texts(flags.input, model, tokenizer);
    if (!texts.ok()) { return fail(texts.status()); }
    warn_of_texts_left_out(*texts);
    Status status;
    {
        ProgressLine line("inspect");  // gone before anything is printed
        for (const auto & tokens : texts->tokens) {
            line.show_fraction(static_cast<double>(inspections.size()) / static_cast<double>(texts->tokens.size()));
            auto one = inspect_gates(model, tokens, options);
            status = one.status();
            if (!status.ok()) { break; }
            inspections.push_back(std::move(*one));
        }
    }
    if (status.ok() && !flags.out.empty()) { status = write_files(flags, files_of(flags, inspections, tokenizer)); }
    if (!status.ok()) { return fail(status); }
    warn_of_foreign_prompt(model, inspections.front().tokens, flags.n_threads);
    if (flags.json) {
        Json json = gates_json(inspections, tokenizer);
        if (flags.input.wants_means()) { json["n_left_out"] = texts->left_out.size(); }
        print_json(json);
    } else {
        print_gates(inspections, tokenizer);
    }
    return kExitOk;
}

// What policies keep of one text.
int print_one(const InspectFlags & flags, const Inspection & inspection, const Tokenizer & tokenizer, int n_vocab) {
    if (!flags.out.empty()) {
        if (const Status status = write_files(flags, files_of(flags, inspection, tokenizer)); !status.ok()) {
            return fail(status);
        }
    }
    warn_of_foreign_prompt(inspection.perplexity, n_vocab);
    if (flags.json) {
        print_json(inspection_json(inspection, tokenizer));
    } else {
        print_inspection(inspection);
    }
    return kExitOk;
}

// What they keep of several, on average.
int print_means(const InspectFlags & flags, const InspectMeans & means, double highest_perplexity, int n_vocab) {
    if (!flags.out.empty()) {
        std::vector<NamedText> files;
        if (wants(flags, "csv")) { files = means_csv(means); }
        if (wants(flags, "json")) { files.push_back({"inspect.json", text_of(means_json(means))}); }
        if (wants(flags, "svg")) { files.push_back({"inspect.svg", means_svg(means.average, flags.figures)}); }
        if (const Status status = write_files(flags, files); !status.ok()) { return fail(status); }
    }
    warn_of_foreign_prompt(highest_perplexity, n_vocab);
    if (flags.json) {
        print_json(means_json(means));
    } else {
        print_means(means);
    }
    return kExitOk;
}

int inspect_policies_command(const InspectFlags & flags, const Model & model, const Tokenizer & tokenizer,
                             InspectOptions & options) {
    const auto texts = read_inspect_texts(flags.input, model, tokenizer);
    if (!texts.ok()) { return fail(texts.status()); }
    warn_of_texts_left_out(*texts);
    std::vector<Inspection> inspections;
    InspectAverager averager;
    double highest_perplexity = 0;
    Status status;
    {
        ProgressLine line("inspect");  // gone before anything is printed
        options.progress = [&](int n_done, int n_total) {
            const double n_texts = static_cast<double>(inspections.size()) + static_cast<double>(n_done) / n_total;
            line.show_fraction(n_texts / static_cast<double>(texts->tokens.size()));
        };
        for (size_t i = 0; i < texts->tokens.size(); ++i) {
            options.n_later = texts->n_later[i];
            auto one = inspect(model, texts->tokens[i], options);
            status = one.status();
            if (!status.ok()) { break; }
            if (flags.input.wants_means()) {
                highest_perplexity = std::max(highest_perplexity, one->perplexity);
                averager.add(*one);
                keep_for_summary(*one);
            }
            inspections.push_back(std::move(*one));
        }
    }
    if (!status.ok()) { return fail(status); }
    if (!flags.input.wants_means()) { return print_one(flags, inspections.front(), tokenizer, model.info().n_vocab); }
    const InspectMeans means{averager.result(), summarise_texts(inspections), texts->left_out.size()};
    return print_means(flags, means, highest_perplexity, model.info().n_vocab);
}

// --attention: maps of the model's own attention, under its gates where it has some.
int inspect_attention_command(const InspectFlags & flags, const Model & model, const Tokenizer & tokenizer) {
    AttentionMapOptions options;
    const auto heads = parse_map_heads(flags.attention, model.info());
    if (!heads.ok()) { return fail_usage(heads.status()); }
    options.heads = *heads;
    options.n_threads = flags.n_threads;
    options.cancel = &catch_interrupt();
    const auto texts = read_inspect_texts(flags.input, model, tokenizer);
    if (!texts.ok()) { return fail(texts.status()); }
    Result<std::vector<AttentionMap>> maps = Status();
    {
        ProgressLine line("attention");
        options.progress = [&line](int n_done, int n_total) { line.show_fraction(static_cast<double>(n_done) / n_total); };
        maps = attention_maps(model, texts->tokens.front(), options);
    }
    if (!maps.ok()) { return fail(maps.status()); }
    std::vector<NamedText> files;
    if (wants(flags, "csv")) { files = attention_maps_csv(*maps); }
    if (wants(flags, "json")) { files.push_back({"attention_maps.json", text_of(attention_maps_json(*maps))}); }
    if (wants(flags, "svg")) { files.push_back({"attention_maps.svg", attention_maps_svg(*maps)}); }
    if (const Status status = write_files(flags, files); !status.ok()) { return fail(status); }
    print_attention_maps(*maps);
    return kExitOk;
}

int inspect_command(InspectFlags flags) {
    if (const Status found = flags.model.find(); !found.ok()) { return fail_or_usage(found); }
    if (const Status status = check_flags(flags); !status.ok()) { return fail_usage(status); }
    auto options = inspect_options(flags);
    if (!options.ok()) { return fail_usage(options.status()); }
    const auto model = flags.model.load();
    if (!model.ok()) { return fail(model.status()); }
    const auto tokenizer = Tokenizer::load(flags.model.path);
    if (!tokenizer.ok()) { return fail(tokenizer.status()); }
    if (!flags.dump.path.empty()) {
        return inspect_dump_command(flags.dump, flags.input, flags.chunk, flags.n_threads, *model, *tokenizer);
    }
    if (flags.wants_gates()) { return inspect_gates_command(flags, *model, *tokenizer); }
    if (flags.wants_attention()) { return inspect_attention_command(flags, *model, *tokenizer); }
    options->cancel = &catch_interrupt();
    return inspect_policies_command(flags, *model, *tokenizer, *options);
}

}  // namespace

void add_inspect_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<InspectFlags>();
    CLI::App * command = root.add_subcommand(kInspectWord.name, kInspectWord.help);
    flags->model.add_to(*command, false);
    flags->input.add_to(*command);
    add(*command, option("--policy"), flags->policies, "Policies to compare, separated by ','; all: every one there is")
        ->default_str(kDefaultPolicies);
    command->add_option("--gate-attention", flags->attention_layer,
                        "With --gate and --out: also what the gate of this layer attends to");
    add(*command, option("--budget"), flags->budgets, "Budgets, separated by ',': tokens per head or shares of the text")
        ->delimiter(',')
        ->default_str(kDefaultBudget);
    add_heads_option(*command, flags->heads);
    flags->cache.add_to(*command);
    command->add_option("-o,--out", flags->out, "Folder for the files");
    command->add_option("--format", flags->formats, "Which files: csv, json, svg")->delimiter(',')->capture_default_str();
    command
        ->add_option("--figure", flags->figures,
                     "Which figures inspect.svg has, separated by ',': policies, layers, budgets, kept, mass, perturbation, "
                     "novelty, distances (default: all)")
        ->delimiter(',');
    command
        ->add_option("--distance", flags->distance,
                     "How heads are compared: cos, pearson, bc, jsd, l2 (jsd and l2: every pair of 64 queries, slow)")
        ->capture_default_str();
    command
        ->add_option("--attention", flags->attention,
                     "LAYER:HEAD, several separated by ',': maps of the model's own attention, as files in --out")
        ->delimiter(',');
    flags->dump.add_to(*command);
    add(*command, option("--chunk"), flags->chunk, "Tokens of a batch")->capture_default_str();
    add(*command, option("--threads"), flags->n_threads);
    add(*command, option("--json"), flags->json);
    command->callback([flags, &exit_code] { exit_code = inspect_command(*flags); });
}

}  // namespace pith::app
