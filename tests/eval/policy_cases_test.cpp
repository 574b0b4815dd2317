// policy_cases_test.cpp - lists of policies as users write them.
#include "eval/policy_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pith/policies.h"
#include "policy/policy.h"

namespace pith {
namespace {

TEST(PolicyCases, AllNamesEveryScorerAndAliasOnceAndOnlyWhatCanRun) {
    const std::vector<std::string> all = all_policies(true);
    const std::set<std::string> names(all.begin(), all.end());
    EXPECT_EQ(names.size(), all.size());
    for (const PolicyInfo & info : list_policies()) {
        if (info.kind == "scorer" || info.kind == "alias") { EXPECT_EQ(names.count(info.name), 1U) << info.name; }
        if (info.kind == "alias") { EXPECT_EQ(names.count(info.meaning), 0U) << info.meaning << " is " << info.name; }
    }
    for (const std::string & name : all) { EXPECT_TRUE(check_policy(name).ok()) << name; }
}

TEST(PolicyCases, AllLeavesOutWhatWantsHeadImportancesUnlessThereAreSome) {
    const std::vector<std::string> without = all_policies(false);
    for (const std::string & name : without) { EXPECT_FALSE(Policy::parse(name)->wants_importance()) << name; }
    EXPECT_GE(all_policies(true).size(), without.size());
}

TEST(PolicyCases, AListMayHoldAllAndMore) {
    const auto list = policies_of_list("all,snapkv:window=16", false);
    ASSERT_TRUE(list.ok());
    EXPECT_EQ(list->size(), all_policies(false).size() + 1);
    EXPECT_EQ(list->back(), "snapkv:window=16");
    const auto bad = policies_of_list("all,snapvk", false);
    EXPECT_EQ(bad.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(bad.status().message().find("snapvk"), std::string::npos);
}

TEST(PolicyCases, StandSideBySideUnderEachBudgetAndTheFullCacheOnce) {
    const auto cases = make_cases({"h2o", "full", "tova"}, {64, 32});
    ASSERT_TRUE(cases.ok());
    std::vector<std::string> got;
    for (const PolicyCase & one : *cases) { got.push_back(one.policy + " " + one.budget.to_string()); }
    EXPECT_EQ(got, (std::vector<std::string>{"full none", "h2o 64", "tova 64", "h2o 32", "tova 32"}));
    EXPECT_EQ(make_cases({"h2o"}, {}).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(make_cases({"nothing"}, {64}).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith
