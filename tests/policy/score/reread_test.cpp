// reread_test.cpp - what a second reading of the text paid.
#include "policy/formulas.h"
#include "policy/score/score_one.h"

namespace pith::test::reread_test {
namespace {

std::vector<float> reread(const PartVariant & scorer, const LayerEvidence & evidence, int h) {
    std::vector<float> scores;
    for (size_t j = 0; j < evidence.positions.row(h).size(); ++j) {
        double most = 0;
        double sum = 0;
        for (int g = 0; g < evidence.n_group; ++g) {
            const double paid = evidence.reread_max.row(h * evidence.n_group + g)[j];
            most = std::max(most, paid);
            sum += paid;
        }
        const double mean = sum / evidence.n_group;
        scores.push_back(static_cast<float>(scorer.is("group", "max") ? most : scorer.is("group", "sum") ? sum : mean));
    }
    return scores;
}
const Known<ScorerFormula> kReread({"reread", reread, kRounded, /*by_position=*/false, /*is_absolute=*/true});

TEST(Reread, ScoresALaneByTheMostThatAnyOfItsHeadsPaid) {
    LayerEvidence evidence = bare_evidence(1, 2, 3);
    evidence.reread_max.push_row(Row{1, 2, 3});
    evidence.reread_max.push_row(Row{3, 0, 2});
    EXPECT_EQ(scores_of("reread", evidence), (std::vector<Row>{{3, 2, 3}}));
    EXPECT_EQ(scores_of("reread:group=mean", evidence), (std::vector<Row>{{2, 1, 2.5}}));
}

TEST(Reread, ProtectsItsSinksAndNoRecentWindow) {
    const Policy policy = Policy::parse("reread:sinks=3").value();
    EXPECT_EQ(policy.n_sinks(), 3);
    EXPECT_EQ(policy.n_recent(100), 0);
    EXPECT_EQ(Policy::parse("reread:recent=5").value().n_recent(100), 5);
    EXPECT_TRUE(policy.rereads());
    EXPECT_FALSE(Policy::parse("snapkv").value().rereads());
}

TEST(Reread, GoesWithEveryAllocatorAndIsRefusedWithGates) {
    for (const char * policy : {"kvzip", "reread+ada", "reread+head", "reread:group=mean+caote"}) {
        EXPECT_TRUE(Policy::parse(policy).ok()) << policy;
    }
    EXPECT_NE(Policy::parse("gated+reread").status().message().find("reads the text again"), std::string::npos);
}

}  // namespace
}  // namespace pith::test::reread_test
