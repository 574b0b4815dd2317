// evidence_test.cpp - the union of what scorers need.
#include "policy/evidence/evidence.h"

#include <gtest/gtest.h>

namespace pith::evidence_test {
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

TEST(EvidenceNeeds, AProfileThatIsNotTheDefaultWins) {
    EvidenceNeeds defaults;
    defaults.profile.n_queries = kDefaultProfileQueries;
    EvidenceNeeds few;
    few.profile.n_queries = 50;
    few.profile.distance = HeadDistance::kPearson;
    for (const EvidenceNeeds & both : {defaults.merged(few), few.merged(defaults)}) {
        EXPECT_EQ(both.profile.n_queries, 50);
        EXPECT_EQ(both.profile.distance, HeadDistance::kPearson);
    }
    EXPECT_EQ(defaults.merged(EvidenceNeeds{}).profile.n_queries, kDefaultProfileQueries);
    EvidenceNeeds many = few;
    many.profile.n_queries = 300;
    EXPECT_EQ(few.merged(many).profile.n_queries, 300);
}

}  // namespace
}  // namespace pith::evidence_test
