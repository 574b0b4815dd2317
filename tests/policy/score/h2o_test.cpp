// h2o_test.cpp - running column sums.
#include "policy/score/score_one.h"

namespace pith::test::h2o_test {
namespace {

LayerEvidence evidence_of_four() {
    LayerEvidence evidence = bare_evidence(1, 2, 4);
    evidence.running_sum.push_row(Row{4, 3, 2, 1});
    evidence.running_sum.push_row(Row{0, 3, 4, 1});
    return evidence;
}

TEST(H2O, ReducesTheGroup) {
    EXPECT_EQ(scores_of("h2o", evidence_of_four()), (std::vector<Row>{{2, 3, 3, 1}}));
    EXPECT_EQ(scores_of("h2o:group=max", evidence_of_four()), (std::vector<Row>{{4, 3, 4, 1}}));
    EXPECT_EQ(head_scores_of("h2o", evidence_of_four()), (std::vector<Row>{{4, 3, 2, 1}, {0, 3, 4, 1}}));
}

TEST(H2O, DividesByTheQueriesThatCouldSeeAnEntry) {
    EXPECT_EQ(scores_of("h2o:normalise=visible:group=sum", evidence_of_four()), (std::vector<Row>{{1, 2, 3, 2}}));
    EXPECT_EQ(scores_of("h2o:normalise=visible:observe=2:group=sum", evidence_of_four()), (std::vector<Row>{{2, 3, 3, 2}}))
        << "with two observed queries, no entry was seen by more than two";
}

}  // namespace
}  // namespace pith::test::h2o_test
