// studies.cpp - the list of studies, and what they know about policies. Stage: eval.
#include "eval/studies/studies.h"

#include <algorithm>
#include <functional>

#include "benchmarks/benchmark.h"
#include "core/text.h"
#include "eval/studies/papers.h"
#include "pith/policies.h"
#include "policy/allocate/cake_presets.h"

namespace pith {
namespace {

constexpr std::string_view kPreset = ":preset=";

bool has_preference(std::string_view policy) {
    return policy == "cake" || policy.starts_with("cake:") || policy.find("+preference") != std::string_view::npos;
}

// The list, or the pairs, with each policy changed.
std::string each_policy(std::string_view list, const std::function<std::string(std::string_view)> & change) {
    std::string out;
    for (size_t begin = 0; begin < list.size();) {
        const size_t end = std::min(list.find_first_of(",<", begin), list.size());
        out += change(list.substr(begin, end - begin));
        if (end < list.size()) { out += list[end]; }
        begin = end + 1;
    }
    return out;
}

bool has_option(const PolicyInfo & info, std::string_view name) {
    return std::ranges::find(info.options, name, &OptionInfo::name) != info.options.end();
}

// Whether this part of a policy is a scorer, or an alias that begins with one, with an option of this name.
bool is_scorer_with(std::span<const PolicyInfo> known, std::string_view part, std::string_view option) {
    const std::string_view name = part.substr(0, part.find(':'));
    const auto found = std::ranges::find(known, name, &PolicyInfo::name);
    if (found == known.end()) { return false; }
    if (found->kind != "alias") { return found->kind == "scorer" && has_option(*found, option); }
    const std::string_view meaning = found->meaning;
    return is_scorer_with(known, meaning.substr(0, meaning.find('+')), option);
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
    return each_policy(policies, [&](std::string_view policy) {
        const bool takes = !preset.empty() && has_preference(policy);
        return std::string(policy) + (takes ? std::string(kPreset) + std::string(preset) : "");
    });
}

std::string with_scorer_option(std::string_view policies, std::string_view option) {
    const std::string_view name = option.substr(0, option.find('='));
    const std::vector<PolicyInfo> known = list_policies();
    return each_policy(policies, [&](std::string_view policy) {
        std::string out;
        for (const std::string_view part : split(policy, '+')) {
            if (!out.empty()) { out += '+'; }
            if (!is_scorer_with(known, part, name)) {
                out += part;
                continue;
            }
            bool first = true;
            for (const std::string_view piece : split(part, ':')) {
                if (piece.substr(0, piece.find('=')) == name && !first) { continue; }
                out += (first ? "" : ":") + std::string(piece);
                first = false;
            }
            out += ":" + std::string(option);
        }
        return out;
    });
}

bool is_scorer_option(std::string_view name) {
    return std::ranges::any_of(list_policies(),
                               [&](const PolicyInfo & info) { return info.kind == "scorer" && has_option(info, name); });
}

std::string without_cake_preset(std::string_view policy) {
    const size_t begin = policy.find(kPreset);
    if (begin == std::string_view::npos) { return std::string(policy); }
    const size_t end = std::min(policy.find_first_of(":+", begin + kPreset.size()), policy.size());
    return std::string(policy.substr(0, begin)) + std::string(policy.substr(end));
}

}  // namespace pith
