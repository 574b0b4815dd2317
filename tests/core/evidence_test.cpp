// evidence_test.cpp - the union of what scorers need.
#include "core/evidence.h"

#include <gtest/gtest.h>

namespace pith {
namespace {

TEST(EvidenceNeeds, MergedAsksForAllThatEitherAsksFor) {
    const EvidenceNeeds snapkv{.window = 16, .window_mean = true};
    const EvidenceNeeds knorm{.key_norm = true};
    EXPECT_EQ(snapkv.merged(knorm), knorm.merged(snapkv));
    EXPECT_EQ(snapkv.merged(knorm), (EvidenceNeeds{.window = 16, .window_mean = true, .key_norm = true}));
    EXPECT_EQ(snapkv.merged({}), snapkv);
    EXPECT_FALSE(EvidenceNeeds{}.any());
    EXPECT_TRUE(knorm.any());
    EXPECT_FALSE(knorm.any_attention());
}

TEST(EvidenceNeeds, RunningSumsOverAllQueriesSwallowSumsOverTheLast) {
    const EvidenceNeeds all{.running_sum = true};
    const EvidenceNeeds some{.running_sum = true, .running_last = 256};
    EXPECT_EQ(all.merged(some).running_last, 0);
    EXPECT_EQ(some.merged(all).running_last, 0);
    EXPECT_EQ(some.merged({.running_sum = true, .running_last = 64}).running_last, 256);
    EXPECT_EQ(some.merged({.key_norm = true}).running_last, 256);
}

}  // namespace
}  // namespace pith
