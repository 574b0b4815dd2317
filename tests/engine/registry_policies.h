// registry_policies.h - every policy that the registry can name, with options for budgets of some tens of entries.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "pith/policies.h"

namespace pith::testing {

// Options that leave something to choose under this small budget, wherever a part has them.
inline std::string with_small_options(const PolicyInfo & info) {
    std::string text = info.name;
    for (const OptionInfo & option : info.options) {
        if (option.name == "window") { text += ":window=8"; }
        if (option.name == "recent" && info.name != "retrieval") { text += ":recent=6"; }
        if (option.name == "k") { text += ":k=20"; }
        if (option.name == "sinks") { text += ":sinks=4"; }
        if (info.name == "retrieval" && option.name == "recent") { text += ":recent=8"; }
    }
    return text;
}

// Every scorer with every allocator, refiner and selector that it goes with, a few compositions of all four kinds, and every
// alias whose own options fit the budget.
inline std::vector<std::string> policies_of_the_registry() {
    std::vector<std::string> scorers;
    std::vector<std::string> others;
    std::vector<std::string> policies;
    for (const PolicyInfo & info : list_policies()) {
        if (info.kind == "scorer" && info.name != "full") { scorers.push_back(with_small_options(info)); }
        if (info.kind == "allocator" || info.kind == "refiner" || info.kind == "selector") {
            others.push_back(with_small_options(info));
        }
        // duo protects 64 sinks.
        if (info.kind == "alias" && info.name != "duo") { policies.push_back(info.name); }
    }
    for (const auto & scorer : scorers) {
        for (const auto & other : others) { policies.push_back(scorer + "+" + other); }
    }
    for (const char * more :
         {"snapkv:window=8+caote+ada+critical", "h2o+caote+global+joint", "matprod:window=8+fastcaote+entropy",
          "tova+fastcaote+novelty+diverse", "attnvar:window=8+preference+joint", "vmax:window=8+head+critical"}) {
        policies.emplace_back(more);
    }
    std::erase_if(policies, [](const std::string & policy) { return !check_policy(policy).ok(); });  // pointless compositions
    return policies;
}

// For INSTANTIATE_TEST_SUITE_P: letters, digits and underscores.
inline std::string policy_test_name(const ::testing::TestParamInfo<std::string> & test) {
    std::string name = test.param;
    std::ranges::replace_if(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
    return name;
}

}  // namespace pith::testing
