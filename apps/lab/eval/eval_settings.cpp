// eval_settings.cpp - what an evaluation's answers depend on, written down for the run's folder.
#include <ggml.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/eval/eval_flags.h"
#include "app/eval/source_hash.h"
#include "common/base/read_text.h"
#include "engine/parts/find_heads.h"
#include "engine/parts/model_parts.h"
#include "eval/fingerprint.h"
#include "eval/run_shards.h"
#include "model/head_importance_file.h"
#include "model/shipped_heads.h"
#include "policy/auto_policy.h"
#include "policy/policy.h"

namespace pith::app {
namespace {

std::string yes_no(bool value) {
    return value ? "yes" : "no";
}

// Six digits: 0.5, 1, 2.25.
std::string number_text(float value) {
    char text[24];
    std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
    return text;
}

template <class T, class Name>
std::string listed(const std::vector<T> & values, const Name & name) {
    std::string text;
    for (const T & value : values) { text += (text.empty() ? "" : ",") + name(value); }
    return text;
}

// The head importances that would be used, by their content; empty: none of the policies wants any, or `auto` does without.
Result<std::string> heads_fingerprint(const EvalOptions & options, const Model & model) {
    // Those that a session would be made with: the text of a file, or of what comes with Pith.
    const std::string & given = options.session.heads_file;
    if (given == kNoHeads) { return std::string(); }
    std::error_code error;
    const std::string path = given.empty() ? default_heads_path(model.info().path) : given;
    SessionOptions tried;
    tried.heads_file = given;
    PITH_ASSIGN_OR_RETURN(const KnownHeads known, find_heads_for_auto(heads_of(model), tried));
    const AutoFacts facts = {.limited = true, .gates = known_gates(model), .heads = known};
    bool by_name = false;
    bool by_auto = false;
    for (const PolicyChoice & choice : options.policies) {
        PITH_ASSIGN_OR_RETURN(const Policy policy, policy_of(choice, facts));
        if (policy.wants_importance()) { (choice.is_auto() ? by_auto : by_name) = true; }
    }
    // A policy by name takes the file beside the model whether it fits or not; `auto` passes over one that does not.
    if (!given.empty() || (by_name && std::filesystem::exists(path, error)) || (by_auto && known == KnownHeads::kBesideModel)) {
        PITH_ASSIGN_OR_RETURN(const std::string text, read_text(path));
        return fingerprint(text);
    }
    const bool shipped = heads_of(model).shipped().kind == ShippedMatch::Kind::kSame;
    return (by_name || by_auto) && shipped ? fingerprint(heads_of(model).shipped().text) : std::string();
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> eval_settings(const EvalFlags & flags, const EvalOptions & options,
                                                                       const Model & model) {
    const auto number = [](int value) { return std::to_string(value); };
    std::vector<std::pair<std::string, std::string>> settings;
    const auto add = [&settings](const char * name, std::string value) { settings.push_back({name, std::move(value)}); };
    add("FAMILY", options.family);
    PITH_ASSIGN_OR_RETURN(std::string model_name, model_fingerprint(model.info()));
    add("model", std::move(model_name));
    if (!flags.model.lora.empty()) {
        PITH_ASSIGN_OR_RETURN(const std::string adapter, file_fingerprint(flags.model.lora));
        add("--lora", adapter + " at scale " + number_text(flags.model.lora_scale));
    }
    if (const auto gate = gate_of(model)) {  // given, or found beside the model
        PITH_ASSIGN_OR_RETURN(std::string gates, file_fingerprint(gate->path()));
        add("--gate", std::move(gates));
    }
    add("--tasks", listed(options.tasks, [](const auto * task) { return task->rules().name; }));
    add("--context", listed(options.lengths, number));
    add("--policy", listed(options.policies, [](const PolicyChoice & policy) { return policy.name(); }));
    add("--budget", listed(options.budgets, [](const Budget & budget) { return budget.to_string(); }));
    add("--samples", options.n_samples > 0 ? number(options.n_samples) : "all");
    if (options.samples_hash.empty()) {
        add("--seed", std::to_string(options.seed));
    } else {
        add("--samples-file", options.samples_hash);
    }
    if (!flags.shard.empty()) { add(kShardSetting, flags.shard); }
    if (!options.files.empty()) {
        std::string data;
        for (const auto & [name, text] : options.files) { data += (data.empty() ? "" : ",") + name + " " + fingerprint(text); }
        add("--data", std::move(data));
    }
    if (!options.haystack.empty()) { add("--haystack", fingerprint(options.haystack)); }
    if (!options.texts.empty()) {
        const bool several = options.texts.size() > flags.texts.size();  // of one file
        std::string all;
        for (const std::string & text : options.texts) { all += several ? text + '\0' : ""; }
        add("--text", several ? fingerprint(all) + " of " + std::to_string(options.texts.size()) + " texts"
                              : listed(options.texts, [](const auto & text) { return fingerprint(text); }));
    }
    const bool perplexity = options.tasks.empty();
    if (!perplexity) { add("--question-aware", yes_no(options.question_aware)); }
    if (options.guided) { add("--guided", yes_no(true)); }
    add("--prefill", perplexity ? "chunked" : flags.prefill);
    add("--chunk", number(options.session.chunk));
    if (options.session.evict_every > 0) { add("--evict-every", number(options.session.evict_every)); }
    add("--cache-type-k", std::string(to_string(options.session.type_k)));
    add("--cache-type-v", std::string(to_string(options.session.type_v)));
    if (is_quantised(options.session.type_k) || is_quantised(options.session.type_v)) {
        add("--no-kv-rotation", yes_no(!options.session.rotate_kv));
    }
    if (options.session.cold) {
        add("--cold", std::string(to_string(*options.session.cold)));
        add("--cold-size", std::to_string(options.session.cold_bytes));  // what is evicted beyond it is lost
        add("--repair-every", number(options.session.repair_every));
        if (options.session.look_back) { add("--look-back", yes_no(true)); }
    }
    if (!options.session.context_shift) { add("--no-context-shift", yes_no(true)); }
    PITH_ASSIGN_OR_RETURN(const std::string heads, heads_fingerprint(options, model));
    if (!heads.empty()) { add("--heads", heads); }
    if (options.raw) { add("--raw", yes_no(true)); }
    const bool prefix_asked = std::ranges::any_of(options.tasks, [](const auto * task) { return task->rules().prefix_asked; });
    if (prefix_asked && !options.raw) { add("answer prefix", "in the prompt"); }  // runs of before had it behind
    if (options.n_new > 0) { add("--max-new", number(options.n_new)); }
    if (options.n_ctx > 0) { add("--ctx-size", number(options.n_ctx)); }
    add("pith", PITH_VERSION);
    add("sources", kSourceHash);
    add("ggml", ggml_version());
    return settings;
}

}  // namespace pith::app
