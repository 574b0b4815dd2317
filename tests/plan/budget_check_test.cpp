// budget_check_test.cpp - budgets that cannot hold what is protected, before there is a prompt.
#include "plan/budget_check.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/auto_policy.h"

namespace pith::budget_check_test {
namespace {

std::string refusal(const SessionOptions & options) {
    const Status status = check_protected(options);
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kBudget);
    return status.message();
}

TEST(BudgetCheck, NamesWhatIsProtectedAndTheBudgetThatHoldsIt) {
    EXPECT_EQ(refusal({.policy = "snapkv", .budget = 8}),
              "budget 8 gives 8 tokens per head, but policy snapkv protects 32 (0 sinks, 32 recent): use budget 32 or more, or "
              "protect less");
    EXPECT_EQ(refusal({.policy = "snapkv:window=8", .budget = 20, .pinned = {{0, 10}, {5, 15}}}),
              "budget 20 gives 20 tokens per head, but policy snapkv:window=8 protects 23 (0 sinks, 8 recent, 15 pinned): use "
              "budget 23 or more, or protect less");
    EXPECT_EQ(refusal({.policy = "snapkv", .budget = 32}), "");
}

TEST(BudgetCheck, OfAutoAsksForTheLeastThatItMayProtect) {
    EXPECT_EQ(refusal({.budget = 256}), "");
    const std::string one = refusal({.budget = 1, .pinned = {{0, 4}}});
    EXPECT_NE(one.find("budget 1 gives 1 tokens per head, but policy "), std::string::npos) << one;
}

TEST(BudgetCheck, WaitsForThePromptWhereTheBudgetIsAShareOrNothingIsEvictedInDecode) {
    EXPECT_EQ(refusal({.policy = "snapkv", .budget = Budget(BudgetKind::kPercent, 1)}), "");
    EXPECT_EQ(refusal({.policy = "snapkv", .budget = 8, .evict_every = 0}), "");
}

TEST(BudgetCheck, OfAPromptAllowsABudgetThatHoldsThePromptWhole) {
    const SessionOptions options{.policy = "snapkv", .budget = 8, .evict_every = 0};
    const Policy policy = *policy_of(options.policy, {});
    const RunPlan plan{.budget = 8};
    EXPECT_TRUE(check_prompt(options, policy, options.budget, plan, 8).ok());
    EXPECT_EQ(check_prompt(options, policy, options.budget, plan, 20).message(),
              "budget 8 gives 8 tokens per head, but policy snapkv protects 20 of the prompt's 20 (0 sinks, 20 recent, 0 "
              "pinned): use budget 20 or more, or protect less");
}

}  // namespace
}  // namespace pith::budget_check_test
