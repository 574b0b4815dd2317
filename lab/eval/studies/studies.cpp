// studies.cpp - the list of studies, and what they know about policies. Stage: eval.
#include "eval/studies/studies.h"

#include <algorithm>

#include "benchmarks/benchmark.h"
#include "core/text.h"
#include "eval/studies/papers.h"
#include "policy/allocate/cake_presets.h"

namespace pith {
namespace {

constexpr std::string_view kPreset = ":preset=";

bool has_preference(std::string_view policy) {
    return policy == "cake" || policy.starts_with("cake:") || policy.find("+preference") != std::string_view::npos;
}

}  // namespace

std::span<const Study> studies() {
    static const std::array all = {caote_study(), criticalkv_study(), score_study(), laprox_study(), attention_gate_study()};
    return all;
}

const Study * find_study(std::string_view name) {
    const auto at = std::ranges::find(studies(), name, &Study::name);
    return at == studies().end() ? nullptr : &*at;
}

const StudyPart * find_part(const Study & study, std::string_view name) {
    const auto at = std::ranges::find(study.parts, name, &StudyPart::name);
    return at == study.parts.end() ? nullptr : &*at;
}

std::vector<std::string> tasks_of_part(const StudyPart & part) {
    std::vector<std::string> names;
    if (part.kind == StudyKind::kEfficiency) { return names; }
    if (part.family == "perplexity") { return {"perplexity"}; }
    if (!part.tasks.empty() && part.tasks != "all") {
        const std::vector<std::string_view> given = list_of(part.tasks);
        return {given.begin(), given.end()};
    }
    for (const auto & task : benchmarks::all_tasks()) {
        if (task->rules().family == part.family) { names.push_back(task->rules().name); }
    }
    return names;
}

std::vector<std::string_view> list_of(std::string_view text) {
    return text.empty() ? std::vector<std::string_view>() : split(text, ',');
}

std::string_view cake_preset_of(const ModelInfo & model) {
    return cake_preset_for(model.architecture, model.n_layers, model.n_embd, model.n_kv_heads, model.n_vocab);
}

std::string with_cake_preset(std::string_view policies, std::string_view preset) {
    std::string out;
    for (const std::string_view policy : list_of(policies)) {
        out += (out.empty() ? "" : ",") + std::string(policy);
        if (!preset.empty() && has_preference(policy)) { out += std::string(kPreset) + std::string(preset); }
    }
    return out;
}

std::string with_cake_preset_in_pairs(std::string_view pairs, std::string_view preset) {
    std::string out;
    for (const std::string_view pair : list_of(pairs)) {
        std::string both;
        for (const std::string_view policy : split(pair, '<')) {
            both += (both.empty() ? "" : "<") + with_cake_preset(policy, preset);
        }
        out += (out.empty() ? "" : ",") + both;
    }
    return out;
}

std::string without_cake_preset(std::string_view policy) {
    const size_t begin = policy.find(kPreset);
    if (begin == std::string_view::npos) { return std::string(policy); }
    const size_t end = std::min(policy.find_first_of(":+", begin + kPreset.size()), policy.size());
    return std::string(policy.substr(0, begin)) + std::string(policy.substr(end));
}

}  // namespace pith
