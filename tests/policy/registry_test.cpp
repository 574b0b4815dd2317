// registry_test.cpp - the listing users see, filled from the registries.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pith/policies.h"
#include "policy/policy.h"
#include "policy/registry.h"
#include "policy/variants.h"

namespace pith::registry_test {
namespace {

template <class Part>
void expect_in_order(std::span<const PartInfo<Part>> parts, std::initializer_list<std::string_view> names) {
    std::vector<std::string_view> found;
    for (const auto & part : parts) found.push_back(part.name);
    std::erase_if(found, [&](std::string_view name) { return std::find(names.begin(), names.end(), name) == names.end(); });
    EXPECT_EQ(found, std::vector<std::string_view>(names));
}

TEST(Registry, HoldsEveryPolicy) {
    expect_in_order<Admission>(admissions(), {"gated"});
    expect_in_order<Scorer>(scorers(), {"full", "random", "streaming", "window", "knorm", "keydiff", "h2o", "tova", "snapkv",
                                        "attnvar", "vmax", "expected", "matprod", "worst", "reread", "gate"});
    expect_in_order<Refiner>(refiners(), {"caote", "fastcaote", "mass"});
    expect_in_order<Allocator>(allocators(), {"uniform", "pyramid", "ada", "head", "retrieval", "preference", "entropy",
                                              "novelty", "global", "threshold"});
    std::vector<std::string_view> names;
    for (const Alias & alias : aliases()) names.push_back(alias.name);
    EXPECT_EQ(names, (std::vector<std::string_view>{"adakv", "pyramidkv", "headkv", "duo", "cake", "lava", "criticalkv",
                                                    "critical-adakv", "critical-headkv", "score", "laprox", "kvzip",
                                                    "defensivekv", "layer-defensivekv"}));
    expect_in_order<Selector>(selectors(), {"topk", "critical", "joint", "diverse"});
    EXPECT_EQ(allocators().front().name, "uniform") << "the default";
    EXPECT_EQ(selectors().front().name, "topk") << "the default";
}

TEST(Registry, NamesNeverCollideAndEveryLineSaysSomething) {
    std::set<std::string> names;
    for (const PolicyInfo & info : list_policies()) {
        EXPECT_TRUE(names.insert(info.name).second) << info.name << " is there twice";
        EXPECT_FALSE(info.help.empty()) << info.name;
        EXPECT_EQ(info.help.find('\n'), std::string::npos) << info.name;
        EXPECT_EQ(info.name.find_first_of("+:,= "), std::string::npos) << info.name;
        EXPECT_EQ(info.kind == "alias", !info.meaning.empty()) << info.name;
        for (const OptionInfo & option : info.options) EXPECT_FALSE(option.help.empty()) << info.name << ":" << option.name;
    }
}

TEST(Registry, EveryPartAndAliasParses) {
    for (const PolicyInfo & info : list_policies()) {
        const bool alone = info.kind == "scorer" || info.kind == "alias" || info.kind == "choice";
        const std::string scorer = info.name == "threshold" ? "gate+" : "snapkv+";  // which wants absolute scores
        const Status status = check_policy(alone ? info.name : scorer + info.name);
        EXPECT_TRUE(status.ok()) << status.message();
        if (info.kind == "alias") { EXPECT_TRUE(check_policy(info.meaning).ok()) << info.meaning; }
    }
}

TEST(Registry, ListsDefaultsAndRangesOfOptions) {
    const auto list = list_policies();
    const auto snapkv = std::find_if(list.begin(), list.end(), [](const PolicyInfo & info) { return info.name == "snapkv"; });
    ASSERT_NE(snapkv, list.end());
    EXPECT_EQ(snapkv->kind, "scorer");
    EXPECT_NE(snapkv->paper.find("SnapKV"), std::string::npos);
    ASSERT_GE(snapkv->options.size(), 4U);
    EXPECT_EQ(snapkv->options[0].name, "window");
    EXPECT_EQ(snapkv->options[0].default_value, "32");
    EXPECT_NE(snapkv->options[0].help.find("an integer from 1 to 65536"), std::string::npos);
    const auto adakv = std::find_if(list.begin(), list.end(), [](const PolicyInfo & info) { return info.name == "adakv"; });
    ASSERT_NE(adakv, list.end());
    EXPECT_EQ(adakv->meaning, "snapkv+ada");
}

template <class Part>
void expect_variants_parse(std::span<const PartInfo<Part>> parts, const std::string & before) {
    for (const auto & part : parts) {
        for (const auto & variant : test::variants_of(part.name, part.options)) {
            // A window of its own wants the scorer's to be the same.
            const std::string window = variant.window_beside("");
            const std::string scorer = part.name == "threshold"           ? "gate+"
                                       : before.empty() || window.empty() ? before
                                                                          : "snapkv:window=" + window + "+";
            const Status status = check_policy(scorer + variant.text());
            EXPECT_TRUE(status.ok()) << status.message();
        }
    }
}

TEST(Registry, EveryValueATableNamesIsAccepted) {
    expect_variants_parse<Scorer>(scorers(), "");
    expect_variants_parse<Refiner>(refiners(), "snapkv+");
    expect_variants_parse<Allocator>(allocators(), "snapkv+");
    expect_variants_parse<Selector>(selectors(), "snapkv+");
}

}  // namespace
}  // namespace pith::registry_test
