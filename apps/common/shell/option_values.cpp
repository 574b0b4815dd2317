// option_values.cpp - the table of options whose value is no file, and the lists that their choices come from.
#include "common/shell/option_values.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string_view>

#include "benchmarks/benchmark.h"
#include "eval/studies/studies.h"
#include "model/random/random_model.h"
#include "pith/policies.h"
#include "tasks/tasks.h"

namespace pith::app {
namespace {

using Words = std::vector<std::string>;

void add_once(Words & words, std::string_view word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) { words.emplace_back(word); }
}

Words policies() {
    Words words;
    for (const PolicyInfo & policy : list_policies()) { add_once(words, policy.name); }
    return words;
}

Words policies_or_all() {
    Words words = policies();
    words.emplace_back("all");
    return words;
}

Words benchmarks_there_are() {
    Words words;
    for (const auto & task : benchmarks::all_tasks()) { add_once(words, task->rules().family); }
    words.emplace_back("perplexity");
    return words;
}

Words benchmark_tasks() {
    Words words;
    for (const auto & task : benchmarks::all_tasks()) { add_once(words, task->rules().name); }
    words.emplace_back("all");
    return words;
}

Words study_names() {
    Words words;
    for (const Study & study : studies()) { add_once(words, study.name); }
    return words;
}

Words study_parts() {
    Words words;
    for (const Study & study : studies()) {
        for (const StudyPart & part : study.parts) { add_once(words, part.name); }
    }
    return words;
}

Words demo_tasks() {
    Words words;
    for (const corpus::TaskInfo & task : corpus::task_list()) { add_once(words, task.id); }
    return words;
}

Words shapes_there_are() {
    Words words;
    std::istringstream names(shape_names());  // "0.5b, 1b"
    for (std::string name; names >> name;) { add_once(words, name.substr(0, name.find(','))); }
    return words;
}

Words cache_types() {
    return {"f32", "f16", "bf16", "q8_0", "q4_0"};
}

struct Entry {
    std::string_view command;  // empty: of any that no row above names
    std::string_view option;
    ValueKind kind;
    std::function<Words()> choices = [] { return Words(); };
};

const std::vector<Entry> & table() {
    const auto these = [](const Words & words) { return [words] { return words; }; };
    static const std::vector<Entry> entries = {
        {"pith demo", "--policy", ValueKind::kPolicies, policies_or_all},
        {"pith eval", "--policy", ValueKind::kPolicies, policies_or_all},
        {"pith inspect", "--policy", ValueKind::kPolicies, policies_or_all},
        {"", "--policy", ValueKind::kPolicies, policies},
        {"", "--ask-policy", ValueKind::kPolicies, policies},
        {"", "--policies", ValueKind::kPolicies, policies_or_all},
        {"", "--cache-type-k", ValueKind::kOneOf, cache_types},
        {"", "--cache-type-v", ValueKind::kOneOf, cache_types},
        {"pith eval", "--prefill", ValueKind::kOneOf, these({"one-shot", "chunked"})},
        {"", "--prefill", ValueKind::kOneOf, these({"auto", "one-shot", "chunked"})},
        {"pith eval", "FAMILY", ValueKind::kOneOf, benchmarks_there_are},
        {"pith eval", "--tasks", ValueKind::kListOf, benchmark_tasks},
        {"pith eval report", "--figure", ValueKind::kListOf, these({"average", "depths", "heads"})},
        {"pith eval score", "--task", ValueKind::kText},
        {"pith study", "NAME", ValueKind::kOneOf, study_names},
        {"pith study", "--part", ValueKind::kOneOf, study_parts},
        {"pith demo", "--task", ValueKind::kListOf, demo_tasks},
        {"pith train sft", "--task", ValueKind::kOneOf, demo_tasks},
        {"pith inspect", "--format", ValueKind::kListOf, these({"csv", "json", "svg"})},
        {"pith inspect", "--figure", ValueKind::kListOf,
         these({"layers", "budgets", "kept", "mass", "perturbation", "novelty", "distances"})},
        {"pith inspect", "--distance", ValueKind::kOneOf, these({"cos", "pearson", "bc", "jsd", "l2"})},
        {"pith inspect", "--data", ValueKind::kFile},
        {"pith inspect", "--attention", ValueKind::kText},
        {"pith inspect", "--task", ValueKind::kText},
        {"pith train pairs", "--task", ValueKind::kText},
        {"", "--kind", ValueKind::kOneOf, these({"attention", "linear"})},
        {"", "--source", ValueKind::kOneOf, these({"own", "previous"})},
        {"pith make-model", "shape", ValueKind::kOneOf, shapes_there_are},
        {"pith make-model", "--type", ValueKind::kOneOf, these({"f32", "f16", "bf16", "q8_0", "q4_0"})},
        {"pith completion", "SHELL", ValueKind::kOneOf, these({"bash", "zsh", "fish"})},
        {"pith man", "COMMAND", ValueKind::kText},
        {"", "--data", ValueKind::kFolder},
        {"", "--out", ValueKind::kFolder},
        {"", "--work-dir", ValueKind::kFolder},
        {"", "--prefill-cache", ValueKind::kFolder},
        {"pith cache list", "FOLDER", ValueKind::kFolder},
        {"pith cache prune", "FOLDER", ValueKind::kFolder},
        {"", "--cache-dir", ValueKind::kFolder},
        {"", "--cache-size", ValueKind::kText},
        {"pith cache prune", "--size", ValueKind::kText},
        {"pith eval compare", "FIRST", ValueKind::kFolder},
        {"pith eval compare", "SECOND", ValueKind::kFolder},
        {"pith eval report", "FOLDER", ValueKind::kFolder},
        {"", "--prompt", ValueKind::kText},
        {"", "--system-prompt", ValueKind::kText},
        {"", "--reverse-prompt", ValueKind::kText},
        {"", "--in-prefix", ValueKind::kText},
        {"", "--in-suffix", ValueKind::kText},
        {"", "--chat-template", ValueKind::kText},
        {"", "--chat-template-kwargs", ValueKind::kText},
        {"", "--reasoning", ValueKind::kOneOf, these({"on", "off", "auto"})},
        {"", "--reasoning-format", ValueKind::kOneOf, these({"auto", "hide", "none"})},
        {"", "--rpc", ValueKind::kText},
        {"", "--device", ValueKind::kText},
        {"", "--n-gpu-layers", ValueKind::kText},
        {"", "--tensor-split", ValueKind::kText},
        {"", "--budget", ValueKind::kText},
        {"", "--ask-budget", ValueKind::kText},
        {"", "--hf-repo", ValueKind::kText},
        {"", "--hf-file", ValueKind::kText},
        {"", "--hf-token", ValueKind::kText},
        {"", "--dry-sequence-breaker", ValueKind::kText},
        {"", "--logit-bias", ValueKind::kText},
        {"", "--grammar", ValueKind::kText},
        {"", "--json-schema", ValueKind::kText},
        {"", "--field", ValueKind::kText},
        {"", "--prompt-field", ValueKind::kText},
        {"", "--completion-field", ValueKind::kText},
    };
    return entries;
}

}  // namespace

OptionValues values_of(const std::string & command, const std::string & name, const std::string & placeholder) {
    for (const Entry & entry : table()) {
        if (entry.option == name && (entry.command.empty() || entry.command == command)) {
            return {entry.kind, entry.choices()};
        }
    }
    return {placeholder == "TEXT" ? ValueKind::kFile : ValueKind::kText, {}};
}

}  // namespace pith::app
