// option_values.cpp - the options that several commands have, and the lists that their choices come from.
#include "common/shell/option_values.h"

#include <algorithm>
#include <utility>

#include "pith/policies.h"
#include "tasks/tasks.h"

namespace pith::app {
namespace {

Words policies() {
    Words words;
    for (const PolicyInfo & policy : list_policies()) { add_once(words, policy.name); }
    return words;
}

Words cache_types() {
    return {"f32", "f16", "bf16", "q8_0", "q4_0"};
}

OptionTable common_options() {
    return {
        {"", "--policy", ValueKind::kPolicies, policies},
        {"", "--ask-policy", ValueKind::kPolicies, policies},
        {"", "--policies", ValueKind::kPolicies, policies_or_all},
        {"", "--cache-type-k", ValueKind::kOneOf, cache_types},
        {"", "--cache-type-v", ValueKind::kOneOf, cache_types},
        {"", "--prefill", ValueKind::kOneOf, these({"auto", "one-shot", "chunked"})},
        {"", "--kind", ValueKind::kOneOf, these({"attention", "linear"})},
        {"", "--source", ValueKind::kOneOf, these({"own", "previous"})},
        {"", "--data", ValueKind::kFolder},
        {"", "--out", ValueKind::kFolder},
        {"", "--work-dir", ValueKind::kFolder},
        {"", "--prefill-cache", ValueKind::kFolder},
        {"", "--cache-dir", ValueKind::kFolder},
        {"", "--cache-size", ValueKind::kText},
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
}

}  // namespace

void add_once(Words & words, std::string_view word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) { words.emplace_back(word); }
}

Words policies_or_all() {
    Words words = policies();
    words.emplace_back("all");
    return words;
}

Words demo_tasks() {
    Words words;
    for (const corpus::TaskInfo & task : corpus::task_list()) { add_once(words, task.id); }
    return words;
}

std::function<Words()> these(Words words) {
    return [words = std::move(words)] { return words; };
}

OptionTable with_common_options(OptionTable own) {
    const OptionTable common = common_options();
    own.insert(own.end(), common.begin(), common.end());
    return own;
}

OptionValues values_of(const OptionTable & table, const std::string & command, const std::string & name,
                       const std::string & placeholder) {
    for (const OptionRow & row : table) {
        if (row.option == name && (row.command.empty() || row.command == command)) { return {row.kind, row.choices()}; }
    }
    return {placeholder == "TEXT" ? ValueKind::kFile : ValueKind::kText, {}};
}

}  // namespace pith::app
