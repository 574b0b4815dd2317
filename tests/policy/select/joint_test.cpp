// joint_test.cpp - greedy joint elimination beside the best single eviction and beside CAOTE's independent choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "policy/select/joint_lane.h"

namespace pith::test::joint_test {
namespace {

Lane random_lane(Rng & rng, size_t n, size_t d, size_t n_group, int n_protected) {
    Lane lane{n, d, {}, {}, n_protected};
    const auto unit = [&] { return static_cast<float>(random_int(rng, 1, 1 << 20)) / (1 << 20); };
    for (size_t i = 0; i < n * d; ++i) lane.values.push_back(2 * unit() - 1);
    for (size_t g = 0; g < n_group; ++g) {
        std::vector<float> row;
        for (size_t j = 0; j < n; ++j) row.push_back(std::pow(unit(), 3.0F));
        lane.scores.push_back(row);
    }
    return lane;
}

Lane next_lane(Rng & rng) {
    return random_lane(rng, static_cast<size_t>(random_int(rng, 12, 40)), 8, static_cast<size_t>(random_int(rng, 1, 3)),
                       random_int(rng, 0, 3));
}

constexpr double kRounding = 1e-6;  // relative: the refiner's path is f32, and joint compares in f32

TEST(Joint, OneEvictionIsTheBestThereIs) {
    Rng rng(1);
    for (int repeat = 0; repeat < 300; ++repeat) {
        const Lane lane = next_lane(rng);
        double least = 1e30;
        for (size_t j = 0; j + static_cast<size_t>(lane.n_protected) < lane.n; ++j) {
            std::vector<bool> without(lane.n, true);
            without[j] = false;
            least = std::min(least, joint_error(lane, without));
        }
        ASSERT_LE(joint_error(lane, kept_by("h2o+joint", lane, 1)), least * (1 + kRounding)) << "lane " << repeat;
    }
}

TEST(Joint, TwoEvictionsAreNeverWorseThanCaotesChoice) {
    Rng rng(2);
    int n_better = 0;
    for (int repeat = 0; repeat < 1000; ++repeat) {
        const Lane lane = next_lane(rng);
        const double joint = joint_error(lane, kept_by("h2o+joint", lane, 2));
        const double independent = joint_error(lane, kept_by("h2o+caote", lane, 2));
        ASSERT_LE(joint, independent * (1 + kRounding)) << "lane " << repeat;
        n_better += joint < independent * (1 - kRounding) ? 1 : 0;
    }
    RecordProperty("better_of_1000", n_better);
    EXPECT_GT(n_better, 0);
}

TEST(Joint, MoreEvictionsAreBetterOnAverageThanCaotesChoice) {
    for (const int m : {3, 5, 8}) {
        Rng rng(3);
        double ratio = 0;
        int n_worse = 0;
        constexpr int kLanes = 300;
        for (int repeat = 0; repeat < kLanes; ++repeat) {
            const Lane lane = next_lane(rng);
            const double joint = joint_error(lane, kept_by("h2o+joint", lane, m));
            const double independent = joint_error(lane, kept_by("h2o+caote", lane, m));
            ratio += joint / independent / kLanes;
            n_worse += joint > independent * (1 + kRounding) ? 1 : 0;
        }
        const std::string of_m = std::to_string(m) + "_evictions";
        RecordProperty("mean_error_ratio_" + of_m, std::to_string(ratio));
        RecordProperty("worse_lanes_of_300_" + of_m, n_worse);
        std::printf("joint, %d evictions: mean error %.3f of CAOTE's, worse on %d of %d lanes\n", m, ratio, n_worse, kLanes);
        EXPECT_LT(ratio, 1.0) << m << " evictions";
    }
}

TEST(Joint, CuttingUpToEightFromTheTailIsEvictingThemToo) {
    Rng rng(4);
    for (int repeat = 0; repeat < 20; ++repeat) {
        const Lane lane = random_lane(rng, 25, 8, 2, 2);
        const LayerChoice choice = choice_of("h2o+joint", lane, 1);
        std::vector<std::pair<float, int32_t>> order;  // candidates, the lowest priority first
        for (size_t i = 0; i + 2 < choice.keep.size(); ++i)
            order.emplace_back(choice.priority.row(0)[i], choice.keep.row(0)[i]);
        std::sort(order.begin(), order.end());
        std::vector<bool> is_kept = kept_by("h2o+joint", lane, 1);
        for (int cut = 1; cut <= 8; ++cut) {
            is_kept[static_cast<size_t>(order[static_cast<size_t>(cut) - 1].second)] = false;
            ASSERT_EQ(is_kept, kept_by("h2o+joint", lane, 1 + cut));
        }
    }
}

TEST(Joint, WithoutValuesItSaysSo) {
    LayerEvidence evidence;
    const Ragged<float> scores;
    const Ragged<IndexRange> ranges;
    const LayerView view{.positions = evidence.positions,
                         .scores = scores,
                         .protected_ranges = ranges,
                         .evidence = &evidence,
                         .base_scores = &scores};
    LayerChoice choice;
    const Policy policy = Policy::parse("h2o+joint").value();
    const Status status = policy.selector().select(view, {}, run_in_turn, choice);
    EXPECT_EQ(status.code(), ErrorCode::kMissingEvidence);
    EXPECT_NE(status.message().find("joint needs the values"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pith::test::joint_test
