// policy_choice_test.cpp - choices of a policy: what a text becomes, and when it is refused.
#include "pith/policy_choice.h"

#include <gtest/gtest.h>

#include "policy/named_policy.h"

namespace pith::policy_choice_test {
namespace {

TEST(PolicyChoice, IsAutoWhereNobodyChose) {
    const PolicyChoice nobody;
    EXPECT_TRUE(nobody.is_auto());
    EXPECT_EQ(nobody.name(), "auto");
    EXPECT_TRUE(nobody.check().ok());
    EXPECT_TRUE(nobody == PolicyChoice("auto"));
}

TEST(PolicyChoice, HoldsThePolicyThatItsTextNames) {
    const PolicyChoice choice = " snapkv:window=16+ada ";
    EXPECT_FALSE(choice.is_auto());
    EXPECT_EQ(choice.name(), "snapkv:window=16+ada");
    const Result<Policy> policy = named_policy(choice);
    ASSERT_TRUE(policy.ok()) << policy.status().message();
    EXPECT_EQ(policy->needs().window, 16);
    EXPECT_EQ(policy->name(), choice.name());
}

TEST(PolicyChoice, OfATextThatIsNoPolicySaysWhatParsingItSays) {
    for (const char * text : {"snapvk", "", "auto+ada", "snapkv:window=0"}) {
        const PolicyChoice choice = text;
        const Status status = choice.check();
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << text;
        EXPECT_EQ(status.message(), PolicyChoice::parse(text).status().message());
        EXPECT_EQ(status.message(), named_policy(choice).status().message());
        EXPECT_FALSE(choice.is_auto());
        EXPECT_EQ(choice.name(), text);
    }
}

TEST(PolicyChoice, IsAnotherWhereItIsCalledOtherwise) {
    EXPECT_TRUE(PolicyChoice("snapkv") == PolicyChoice(" snapkv"));
    EXPECT_FALSE(PolicyChoice("snapkv") == PolicyChoice("snapkv:window=32"));
    EXPECT_FALSE(PolicyChoice("snapkv") == PolicyChoice());
}

}  // namespace
}  // namespace pith::policy_choice_test
