// lab_options.cpp - the table, and the lists that choices come from.
#include "app/shell/lab_options.h"

#include "benchmarks/benchmark.h"
#include "eval/studies/studies.h"

namespace pith::app {
namespace {

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

}  // namespace

OwnOptions lab_options() {
    return {
        {"pith eval", "--policy", ValueKind::kPolicies, policies_or_all},
        {"pith inspect", "--policy", ValueKind::kPolicies, policies_or_all},
        {"pith eval", "--prefill", ValueKind::kOneOf, these({"one-shot", "chunked"})},
        {"pith eval", "FAMILY", ValueKind::kOneOf, benchmarks_there_are},
        {"pith eval", "--tasks", ValueKind::kListOf, benchmark_tasks},
        {"pith eval report", "--figure", ValueKind::kListOf, these({"average", "depths", "heads"})},
        {"pith eval score", "--task", ValueKind::kText},
        {"pith study", "NAME", ValueKind::kOneOf, study_names},
        {"pith study", "--part", ValueKind::kOneOf, study_parts},
        {"pith train sft", "--task", ValueKind::kOneOf, demo_tasks},
        {"pith inspect", "--format", ValueKind::kListOf, these({"csv", "json", "svg"})},
        {"pith inspect", "--figure", ValueKind::kListOf,
         these({"layers", "budgets", "kept", "mass", "perturbation", "novelty", "distances"})},
        {"pith inspect", "--distance", ValueKind::kOneOf, these({"cos", "pearson", "bc", "jsd", "l2"})},
        {"pith inspect", "--data", ValueKind::kFile},
        {"pith inspect", "--attention", ValueKind::kText},
        {"pith inspect", "--task", ValueKind::kText},
        {"pith train pairs", "--task", ValueKind::kText},
        {"pith eval compare", "FIRST", ValueKind::kFolder},
        {"pith eval compare", "SECOND", ValueKind::kFolder},
        {"pith eval report", "FOLDER", ValueKind::kFolder},
        {"", "--kind", ValueKind::kOneOf, these({"attention", "linear"})},
        {"", "--source", ValueKind::kOneOf, these({"own", "previous"})},
        {"", "--data", ValueKind::kFolder},
        {"", "--out", ValueKind::kFolder},
        {"", "--work-dir", ValueKind::kFolder},
        {"", "--prefill-cache", ValueKind::kFolder},
        {"", "--field", ValueKind::kText},
        {"", "--prompt-field", ValueKind::kText},
        {"", "--completion-field", ValueKind::kText},
    };
}

}  // namespace pith::app
