// What is protected, counted once each, and the smallest budget that holds it.
#include "plan/protected_tokens.h"

#include <gtest/gtest.h>

namespace pith::protected_tokens_test {
namespace {

Policy named(const char * name) {
    auto policy = Policy::parse(name);
    EXPECT_TRUE(policy.ok()) << policy.status().message();
    return *policy;
}

TEST(ProtectedTokens, SpansThatOverlapCountOnce) {
    EXPECT_EQ(n_covered({}), 0);
    EXPECT_EQ(n_covered({{5, 9}, {0, 3}, {2, 6}}), 9);
    EXPECT_EQ(n_covered({{0, 10}, {2, 4}}), 10);
    EXPECT_EQ(n_covered({{0, 3}, {7, 7}, {20, 22}}), 5);
}

TEST(ProtectedTokens, NothingBehindTheEndCounts) {
    EXPECT_EQ(n_covered({{0, 3}, {8, 12}}, 10), 5);
    EXPECT_EQ(n_covered({{10, 12}}, 10), 0);
}

TEST(ProtectedTokens, AShortPromptHasNoMoreThanItself) {
    const Policy policy = named("h2o:recent=8");
    EXPECT_EQ(n_protected(policy, {}, 100), 8);
    EXPECT_EQ(n_protected(policy, {{2, 6}}, 100), 12);
    EXPECT_EQ(n_protected(policy, {{2, 6}}, 100, 10), 8);  // positions 2 to 9
    EXPECT_EQ(n_protected(policy, {}, 100, 5), 5);
}

// Half of the budget is protected beside what is pinned: a budget of twice that holds it, one less does not.
TEST(ProtectedTokens, TheLeastBudgetHoldsWhatItProtectsAndOneLessDoesNot) {
    for (const char * name : {"h2o:recent=half", "streaming", "snapkv", "tova", "knorm"}) {
        const Policy policy = named(name);
        for (const int32_t n_pinned : {0, 1, 7, 40}) {
            const std::vector<PositionSpan> pinned{{100, 100 + n_pinned}};
            const auto least = least_budget(policy, pinned);
            ASSERT_TRUE(least) << name;
            EXPECT_LE(n_protected(policy, pinned, *least), *least) << name << ", pinned " << n_pinned;
            if (*least > 1) {
                EXPECT_GT(n_protected(policy, pinned, *least - 1), *least - 1) << name << ", pinned " << n_pinned;
            }
        }
    }
}

}  // namespace
}  // namespace pith::protected_tokens_test
