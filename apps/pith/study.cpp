// study.cpp - `pith study`: the papers' main tables on a given model, as evaluations one after the other.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "args.h"
#include "commands.h"
#include "core/text.h"
#include "errors.h"
#include "eval/studies.h"
#include "eval_flags.h"
#include "policy/policy.h"
#include "reference_model.h"

namespace pith::app {
namespace {

struct StudyFlags {
    EvalFlags eval;  // what is set here goes over the study's own
    std::string name;
    std::string part;
    bool list = false;
};

std::vector<std::string> names_of(const Study & study) {
    std::vector<std::string> names;
    for (const StudyPart & part : study.parts) { names.push_back(part.name); }
    return names;
}

std::string comma_list(const std::vector<std::string> & names) {
    std::string text;
    for (const std::string & name : names) { text += (text.empty() ? "" : ", ") + name; }
    return text;
}

void list_study(const Study & study) {
    std::printf("%s  %s\n", study.name.c_str(), study.paper.c_str());
    for (const StudyPart & part : study.parts) {
        std::printf("  %-14s %s%s\n", part.name.c_str(), part.table.c_str(), part.needs_data ? " (needs --data)" : "");
    }
}

std::string size_text(const StudySize & size) {
    std::string lengths;
    for (const int length : size.lengths) { lengths += (lengths.empty() ? "" : ", ") + std::to_string(length); }
    return (lengths.empty() ? "whole samples" : lengths + " tokens") + ", budgets " + comma_list(size.budgets) +
           ", chunks of " + std::to_string(size.chunk) + ", " + (size.n_samples == 0 ? "all" : std::to_string(size.n_samples)) +
           " samples a task";
}

// One study in full: what its tables are made of.
void describe(const Study & study) {
    list_study(study);
    if (!study.differs.empty()) { std::printf("  differs: %s\n", study.differs.c_str()); }
    for (const StudyPart & part : study.parts) {
        std::printf("\n%s: %s, %s, %s\n", part.name.c_str(), part.family.c_str(),
                    part.question_aware ? "question-aware" : "context-only", part.chunked ? "chunked" : "one-shot");
        std::printf("  policies        %s\n", part.policies.c_str());
        std::printf("  with -m         %s\n", size_text(part.paper).c_str());
        std::printf("  built-in model  %s\n",
                    part.needs_data && !part.stand_in ? "passed over without --data" : size_text(part.reference).c_str());
    }
}

// Policies that divide by head can only run where somebody measured the heads.
std::string without_heads(const std::string & policies, bool with_importance) {
    std::string kept;
    std::string gone;
    for (const std::string_view piece : split(policies, ',')) {
        const auto policy = Policy::parse(piece);
        std::string & list = policy.ok() && policy->wants_importance() && !with_importance ? gone : kept;
        list += (list.empty() ? "" : ",") + std::string(piece);
    }
    if (!gone.empty()) { warn(gone + " left out: no head importances; `pith calibrate heads` makes them"); }
    return kept;
}

EvalFlags part_flags(const StudyFlags & flags, const StudyPart & part, bool reference) {
    const bool stands_in = part.needs_data && flags.eval.data.empty();
    const StudySize & size = reference ? part.reference : part.paper;
    EvalFlags out = flags.eval;
    out.family = stands_in ? "ruler" : part.family;
    out.tasks = stands_in ? "" : part.tasks;
    out.policies = without_heads(part.policies, has_importance(flags.eval.heads, flags.eval.model.path));
    if (out.budgets.empty()) { out.budgets = size.budgets; }
    if (out.lengths.empty()) { out.lengths = stands_in ? part.reference.lengths : size.lengths; }
    if (out.n_samples == 0) { out.n_samples = stands_in ? part.reference.n_samples : size.n_samples; }
    if (out.chunk == 0) { out.chunk = size.chunk; }
    out.question_aware = part.question_aware && out.family != "perplexity";
    out.prefill = part.chunked ? "chunked" : "one-shot";
    if (out.family == "perplexity") {
        out.data.clear();
        out.haystack.clear();
    } else {
        out.texts.clear();
    }
    if (!out.out.empty()) { out.out += "/" + part.name; }
    return out;
}

int study_command(StudyFlags flags) {
    if (flags.list && flags.name.empty()) {
        for (const Study & study : studies()) { list_study(study); }
        return kExitOk;
    }
    std::vector<std::string> names;
    for (const Study & study : studies()) { names.push_back(study.name); }
    const Study * study = find_study(flags.name);
    if (study == nullptr) {
        if (flags.name.empty()) { return fail_usage("name a study: " + comma_list(names)); }
        const std::string near = nearest_name(flags.name, names);
        return fail_usage("unknown study '" + flags.name + "'" +
                          (near.empty() ? ": there are " + comma_list(names) : "; did you mean '" + near + "'?"));
    }
    if (flags.list) {
        describe(*study);
        return kExitOk;
    }
    const std::vector<std::string> parts = names_of(*study);
    if (!flags.part.empty() && std::find(parts.begin(), parts.end(), flags.part) == parts.end()) {
        return fail_usage("study " + study->name + " has no part '" + flags.part + "': there are " + comma_list(parts));
    }
    const bool reference = flags.eval.model.path.empty();
    if (reference) {
        const auto path = reference_model();
        if (!path.ok()) { return fail(path.status()); }
        flags.eval.model.path = *path;
    }
    if (!flags.eval.out.empty()) {
        std::error_code error;
        std::filesystem::create_directories(flags.eval.out, error);
        if (error) { return fail({ErrorCode::kIo, "'" + flags.eval.out + "' cannot be made: " + error.message()}); }
    }
    std::fprintf(stderr, "%s: %s\n", study->name.c_str(), study->paper.c_str());
    if (!study->differs.empty()) { std::fprintf(stderr, "%s\n", study->differs.c_str()); }
    for (const StudyPart & part : study->parts) {
        if (!flags.part.empty() && part.name != flags.part) { continue; }
        const bool no_data = part.needs_data && flags.eval.data.empty();
        if (no_data && !part.stand_in) {
            std::fprintf(stderr, "%s, %s: passed over, it needs --data\n", part.name.c_str(), part.table.c_str());
            continue;
        }
        std::fprintf(stderr, "%s, %s%s\n", part.name.c_str(), part.table.c_str(),
                     no_data ? ": RULER's generated tasks in its place, since there is no --data" : "");
        const int code = run_eval(part_flags(flags, part, reference));
        if (code != kExitOk) { return code; }
    }
    return kExitOk;
}

}  // namespace

void add_study_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<StudyFlags>();
    flags->eval.budgets.clear();
    flags->eval.chunk = 0;
    CLI::App * command = root.add_subcommand("study", "A paper's main tables: caote, criticalkv, score, laprox");
    command->add_option("NAME", flags->name, "Which study");
    command->add_option("--part", flags->part, "One of its tables alone");
    command->add_option("--context", flags->eval.lengths, "Other lengths than the study's")->delimiter(',');
    command->add_option("--budget", flags->eval.budgets, "Other budgets than the study's")->delimiter(',');
    command->add_option("--text", flags->eval.texts, "Text file for perplexity; may be repeated")->allow_extra_args(false);
    flags->eval.add_run_options(*command);
    flags->eval.add_format_options(*command);
    command->add_flag("--list", flags->list, "Show the studies and their parts; of one study, its settings");
    command->callback([flags, &exit_code] { exit_code = study_command(*flags); });
}

}  // namespace pith::app
