// retrieval_test.cpp - the most important lanes keep all, the others their first and newest entries.
#include "policy/allocate/weigh_one.h"

namespace pith::test::retrieval_test {
namespace {

const std::vector<std::vector<float>> kLayer(2, std::vector<float>(100, 0.0F));
const HeadImportance kImportance{.copy = {0, 0, 0, 0}, .reason = {1, 3, 0, 2}};

std::vector<double> shares_of(const char * policy, int64_t total) {
    return weights_of(policy, {kLayer, kLayer}, total, kImportance);
}

TEST(Retrieval, AsManyLanesAsTheBudgetHoldsKeepAll) {
    const char * policy = "streaming+retrieval:sinks=4:recent=16";
    EXPECT_EQ(shares_of(policy, 160), (std::vector<double>{20, 100, 20, 20}));
    EXPECT_EQ(shares_of(policy, 240), (std::vector<double>{20, 100, 20, 100}));
    EXPECT_EQ(shares_of(policy, 239), (std::vector<double>{20 + 79.0 / 3, 100, 20 + 79.0 / 3, 20 + 79.0 / 3}))
        << "one entry too few for a second full lane: what is left goes to the others evenly";
    EXPECT_EQ(shares_of(policy, 400), (std::vector<double>{100, 100, 100, 100}));
}

TEST(Retrieval, AGivenSparsitySharesWhatThereIsAmongTheFullLanes) {
    const char * policy = "streaming+retrieval:sinks=4:recent=16:sparsity=0.5";
    EXPECT_EQ(shares_of(policy, 160), (std::vector<double>{20, 60, 20, 60}));
    EXPECT_EQ(shares_of(policy, 260), (std::vector<double>{30, 100, 30, 100}));
    EXPECT_EQ(shares_of("streaming+retrieval:sinks=4:recent=16:sparsity=1", 160), (std::vector<double>{40, 40, 40, 40}));
}

TEST(Retrieval, ABudgetBelowTheStreamingLanesIsDividedEvenly) {
    EXPECT_EQ(shares_of("streaming+retrieval:sinks=4:recent=16", 40), (std::vector<double>{20, 20, 20, 20}))
        << "as weights: in proportion";
}

}  // namespace
}  // namespace pith::test::retrieval_test
