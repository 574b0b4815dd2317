// threshold_test.cpp - what is kept is what reaches tau, and the budget is a ceiling.
#include <algorithm>
#include <string>

#include "policy/allocate/weigh_one.h"
#include "policy/evidence_maker.h"
#include "policy/run_cascade.h"

namespace pith::test::threshold_test {
namespace {

using Layer = std::vector<std::vector<float>>;

TEST(Threshold, CountsWhatReachesTauWhateverItsLayerAndHead) {
    const Layer rich = {{.9F, .5F, .1F}, {.5F, .49F, .6F}};
    const Layer poor = {{.1F, .2F, .3F}, {.5F, 0, 0}};
    EXPECT_EQ(weights_of("gate+threshold:tau=0.5", {rich, poor}, 12), (std::vector<double>{2, 2, 0, 1}));
    EXPECT_EQ(weights_of("gate+threshold:tau=0", {rich, poor}, 12), (std::vector<double>{3, 3, 3, 3}));
    EXPECT_EQ(weights_of("gate+threshold:tau=1", {rich, poor}, 12), (std::vector<double>{0, 0, 0, 0}));
}

TEST(Threshold, UnderALowerCeilingTheBestStay) {
    const Layer rich = {{.9F, .5F, .1F}, {.5F, .49F, .6F}};
    const Layer poor = {{.1F, .2F, .3F}, {.5F, 0, 0}};
    EXPECT_EQ(weights_of("gate+threshold:tau=0.5", {rich, poor}, 2), (std::vector<double>{1, 1, 0, 0}));
    EXPECT_EQ(weights_of("gate+threshold:tau=0.5", {rich, poor}, 4), (std::vector<double>{2, 2, 0, 0}))
        << "of equals the newer, then the lower layer";
}

// A share of the scores of random layers: all at once, layer by layer, and asked again.
TEST(Threshold, KeepsTheSameWhereverLayersComeFromAndHoweverOftenItIsAsked) {
    int n_less = 0;
    for (uint32_t seed = 1; seed <= 60; ++seed) {
        Rng rng(seed);
        const CacheShape shape{random_int(rng, 1, 5), random_int(rng, 1, 4), random_int(rng, 1, 2), 8};
        const int n = random_int(rng, 12, 60);
        const EvictionTarget target{shape, random_int(rng, 8, n + 2), {{2, 4}}};
        const auto layers = make_equal(rng, shape, n);
        const float tau = 0.1F * static_cast<float>(random_int(rng, 1, 9));
        const Policy policy = Policy::parse("gate:recent=3+threshold:tau=" + std::to_string(tau)).value();
        SCOPED_TRACE(policy.name() + ", seed " + std::to_string(seed));
        Cache at_once;
        Cache cascade;
        ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, layers, at_once));
        ASSERT_NO_FATAL_FAILURE(run_cascade(policy, target, layers, n, cascade));
        ASSERT_EQ(cascade, at_once);
        ASSERT_LE(n_entries(at_once), target.budget * shape.n_lanes());
        int64_t n_reach = 0;
        std::vector<LayerEvidence> left = layers;
        for (size_t l = 0; l < layers.size(); ++l) {
            Ragged<float> retention;
            for (int h = 0; h < shape.n_kv_heads; ++h) {
                std::vector<float> kept;
                for (int32_t p = 0; p < n; ++p) {  // lanes are whole, so positions are indices
                    const float score = layers[l].retention.row(h)[static_cast<size_t>(p)];
                    n_reach += (p >= 2 && p < 4) || p >= n - 3 || score >= tau ? 1 : 0;
                    if (std::ranges::binary_search(at_once[l].row(h), p)) { kept.push_back(score); }
                }
                retention.push_row(kept);
            }
            left[l].retention = retention;
            left[l].positions = at_once[l];
        }
        EXPECT_EQ(n_entries(at_once), std::min<int64_t>(n_reach, target.budget * shape.n_lanes()));
        n_less += n_reach < std::min<int64_t>(target.budget, n) * shape.n_lanes() ? 1 : 0;
        Cache again;
        ASSERT_NO_FATAL_FAILURE(run_at_once(policy, target, left, again));
        EXPECT_EQ(again, at_once);
    }
    EXPECT_GT(n_less, 20) << "the ceiling decided nearly everything: nothing was tested";
}

TEST(Threshold, WantsScoresThatMeanTheSameInEveryText) {
    const auto refusal = [](const char * policy) { return Policy::parse(policy).status().message(); };
    EXPECT_NE(refusal("keydiff+threshold").find("those of 'keydiff' only compare entries: use gate or reread"),
              std::string::npos)
        << refusal("keydiff+threshold");
    EXPECT_NE(refusal("reread+caote+threshold").find("'caote' makes something else of them"), std::string::npos)
        << refusal("reread+caote+threshold");
    EXPECT_NE(refusal("streaming+threshold").find("orders entries by position"), std::string::npos);
    EXPECT_TRUE(Policy::parse("reread+threshold:tau=0.02+chunks").ok());
}

}  // namespace
}  // namespace pith::test::threshold_test
