// policies.cpp - the list of policies that users see.
#include "pith/policies.h"

#include "core/text.h"
#include "pith/policy_choice.h"
#include "policy/auto_policy.h"
#include "policy/custom_scorers.h"
#include "policy/registry.h"

namespace pith {
namespace {

// In the words of docs/policies.md.
std::string to_text(const EvidenceNeeds & needs) {
    const std::pair<bool, std::string_view> kinds[] = {
        {needs.any_window(), "window"},
        {needs.last_query, "last query"},
        {needs.running_sum, "every query's attention"},
        {needs.profile.any(), "sampled queries' attention"},
        {needs.key_norm || needs.key_cosine || needs.key_leverage || needs.key_rows, "keys"},
        {needs.block_attention, "attention within blocks"},
        {needs.expected_future > 0, "queries' mean and covariance"},
        {needs.value_l1 || needs.value_l2 || needs.values || needs.value_rows, "values"},
        {needs.output_l1 || needs.output_l2 || needs.output_pairs || needs.output_errors, "values through W_O"},
        {needs.retention, "gates"},
        {needs.reread_max, "a second reading"},
    };
    std::vector<std::string_view> words;
    for (const auto & [needed, word] : kinds) {
        if (needed) { words.push_back(word); }
    }
    return join(words, ", ");
}

template <class Part>
std::string needs_of(const PartInfo<Part> & part) {
    const auto options = Options::parse(part.name, part.options, {});
    return to_text(part.make(options.value())->needs());
}
template <>
std::string needs_of(const PartInfo<Admission> & /*part*/) {
    return "gates";
}

template <class Part>
void list_parts(std::string_view kind, std::span<const PartInfo<Part>> parts, std::vector<PolicyInfo> & list) {
    for (const PartInfo<Part> & part : parts) {
        PolicyInfo info;
        info.name = part.name;
        info.kind = kind;
        info.help = part.help;
        info.formula = part.formula;
        info.needs = needs_of(part);
        info.paper = part.paper;
        for (const OptionSpec & spec : part.options) {
            info.options.push_back({std::string(spec.name), std::string(spec.default_value),
                                    std::string(spec.help) + "; " + accepted_values(spec)});
        }
        list.push_back(std::move(info));
    }
}

}  // namespace

std::vector<PolicyInfo> list_policies() {
    std::vector<PolicyInfo> list;
    PolicyInfo automatic;
    automatic.name = kAutoPolicy;
    automatic.kind = "choice";
    automatic.help = auto_help();
    list.push_back(std::move(automatic));
    list_parts<Admission>("admission", admissions(), list);
    list_parts<Scorer>("scorer", scorers(), list);
    for (const auto & scorer : custom_scorers()) {
        PolicyInfo info;
        info.name = scorer->given().name;
        info.kind = "scorer";
        info.help = scorer->given().help.empty() ? "a scorer of your own" : scorer->given().help;
        info.needs = to_text(scorer->needs());
        list.push_back(std::move(info));
    }
    list_parts<Refiner>("refiner", refiners(), list);
    list_parts<Allocator>("allocator", allocators(), list);
    list_parts<Selector>("selector", selectors(), list);
    for (const Alias & alias : aliases()) {
        PolicyInfo info;
        info.name = alias.name;
        info.kind = "alias";
        info.help = alias.help;
        info.paper = alias.paper;
        info.meaning = alias.meaning;
        list.push_back(std::move(info));
    }
    return list;
}

Status check_policy(std::string_view text) {
    return PolicyChoice::parse(text).status();
}

}  // namespace pith
