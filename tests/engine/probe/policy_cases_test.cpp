// policy_cases_test.cpp - lists of policies as users write them.
#include "engine/probe/policy_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/gated_model.h"
#include "pith/policies.h"
#include "policy/named_policy.h"

namespace pith::policy_cases_test {
namespace {

TEST(PolicyCases, AllNamesEveryScorerAndAliasOnceAndOnlyWhatCanRun) {
    const std::vector<PolicyChoice> all = all_policies(true, GatePolicies::kAll);
    std::set<std::string> names;
    for (const PolicyChoice & one : all) { names.insert(one.name()); }
    EXPECT_EQ(names.size(), all.size());
    for (const PolicyInfo & info : list_policies()) {
        if (info.kind == "admission" || info.kind == "scorer" || info.kind == "alias") {
            EXPECT_EQ(names.count(info.name), 1U) << info.name;
        }
        if (info.kind == "alias") { EXPECT_EQ(names.count(info.meaning), 0U) << info.meaning << " is " << info.name; }
    }
    for (const PolicyChoice & one : all) { EXPECT_TRUE(one.check().ok()) << one.name(); }
}

TEST(PolicyCases, AllLeavesOutWhatWantsHeadImportancesUnlessThereAreSome) {
    const std::vector<PolicyChoice> without = all_policies(false);
    for (const PolicyChoice & one : without) { EXPECT_FALSE(named_policy(one)->wants_importance()) << one.name(); }
    EXPECT_GE(all_policies(true).size(), without.size());
}

TEST(PolicyCases, AllLeavesOutWhatWantsGatesUnlessThereAreSome) {
    const auto has = [](const std::vector<PolicyChoice> & list, const char * name) {
        return std::find(list.begin(), list.end(), name) != list.end();
    };
    for (const PolicyChoice & one : all_policies(true)) { EXPECT_FALSE(named_policy(one)->needs_gate()) << one.name(); }
    const auto scoring = all_policies(true, GatePolicies::kScorer);
    EXPECT_TRUE(has(scoring, "gate"));
    EXPECT_FALSE(has(scoring, "gated"));
    const auto all = policies_of_list("all", true, GatePolicies::kAll);
    EXPECT_TRUE(has(*all, "gate"));
    EXPECT_TRUE(has(*all, "gated"));
}

TEST(PolicyCases, WhatGatesDoNotServeIsRefusedByName) {
    const auto refusal = [](const char * list, GatePolicies gates) {
        const Status status = policies_of_list(list, false, gates).status();
        return status.code() == ErrorCode::kInvalidArgument ? status.message() : "accepted";
    };
    for (const char * list : {"snapkv,gated+tova", "gated+tova"}) {
        EXPECT_EQ(refusal(list, GatePolicies::kNone),
                  "policy 'gated+tova' needs gates: gate_file FILE, made by `pith train gate`");
        EXPECT_NE(refusal(list, GatePolicies::kScorer).find("'gated+tova' cannot be compared"), std::string::npos);
        EXPECT_TRUE(policies_of_list(list, false, GatePolicies::kAll).ok());
    }
    EXPECT_EQ(refusal("gate", GatePolicies::kNone), "accepted") << "what was learnt may lie beside the model";
    EXPECT_TRUE(policies_of_list("gate+ada", false, GatePolicies::kScorer).ok());
}

TEST(PolicyCases, AListMayHoldAllAndMore) {
    const auto list = policies_of_list("all,snapkv:window=16", false);
    ASSERT_TRUE(list.ok());
    EXPECT_EQ(list->size(), all_policies(false).size() + 1);
    EXPECT_EQ(list->back().name(), "snapkv:window=16");
    const auto bad = policies_of_list("all,snapvk", false);
    EXPECT_EQ(bad.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(bad.status().message().find("snapvk"), std::string::npos);
}

TEST(PolicyCases, StandSideBySideUnderEachBudgetAndTheFullCacheOnce) {
    const auto cases = make_cases({"h2o", "full", "tova"}, {64, 32});
    ASSERT_TRUE(cases.ok());
    std::vector<std::string> got;
    for (const PolicyCase & one : *cases) { got.push_back(one.policy.name() + " " + one.budget.to_string()); }
    EXPECT_EQ(got, (std::vector<std::string>{"full none", "h2o 64", "tova 64", "h2o 32", "tova 32"}));
    EXPECT_EQ(make_cases({"h2o"}, {}).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(make_cases({"nothing"}, {64}).status().code(), ErrorCode::kInvalidArgument);
}

// Policies that share a prefill and those that cannot: all stand where a session of their own would.
TEST(PolicyCases, StandWhereSessionsOfTheirOwnWouldGatedOnesToo) {
    const auto model = testing::gated_model(testing::tiny_spec(), testing::even_gate());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = testing::random_tokens(80, model->info().n_vocab);
    SessionOptions options;
    options.n_threads = 1;
    options.chunk = 32;
    options.evict_every = 0;
    options.prefill = PrefillSchedule::kOneShot;
    const auto cases =
        make_cases({"full", "gated", "gate:recent=0", "gated+snapkv:window=8+ada", "snapkv:window=8", "gated+tova"}, {20});
    ASSERT_TRUE(cases.ok()) << cases.status().message();
    std::vector<std::string> visited;
    const VisitCase visit = [&](size_t index, Session & session, const Status & ran) -> Status {
        const PolicyCase & one = (*cases)[index];
        visited.push_back(one.policy.name());
        SessionOptions own = options;
        own.policy = one.policy;
        own.budget = one.budget;
        auto alone = *model->session(own);
        const Status status = alone.prefill(tokens);
        EXPECT_EQ(status.code(), ran.code()) << one.policy.name();
        if (one.policy.name() == "gated+tova") {  // 32 protected entries do not fit the budget
            EXPECT_EQ(ran.code(), ErrorCode::kBudget);
            return {};
        }
        for (const int32_t next : {3, 5}) {
            EXPECT_TRUE(session.append(next).ok());
            EXPECT_TRUE(alone.append(next).ok());
        }
        EXPECT_TRUE(std::ranges::equal(session.logits(), alone.logits())) << one.policy.name();
        EXPECT_EQ(session.ledger().kept_entries, alone.ledger().kept_entries) << one.policy.name();
        return {};
    };
    ASSERT_TRUE(for_each_case(*model, options, tokens, *cases, {}, visit).ok());
    EXPECT_EQ(visited.size(), cases->size());
    // Those not wanted are passed over.
    visited.clear();
    ASSERT_TRUE(for_each_case(*model, options, tokens, *cases, {}, visit, [](size_t i) { return i == 1 || i == 2; }).ok());
    EXPECT_EQ(visited, (std::vector<std::string>{"gated", "gate:recent=0"}));
}

}  // namespace
}  // namespace pith::policy_cases_test
