// cpu_attention_test.cpp - the CPU's attention kernel against plain f64 code: random ragged lanes, every row format, every
// instruction set of this machine, with one thread and with several.
#include "attention/cpu/cpu_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "attention/attention_problem.h"

namespace pith::cpu_attention_test {
namespace {

using testing::Case;
using testing::describe;
using testing::Problem;

class CpuAttentionTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }
    void check(const Case & c) {
        SCOPED_TRACE(describe(c));
        Problem problem(c, ++seed_);
        problem.run(plan_, scratch_);
        EXPECT_LE(problem.error(), testing::tolerance(c));  // against the values that the rows really hold
    }

    AttentionPlan plan_;  // one for all: it must not remember
    AttentionScratch scratch_;
    uint32_t seed_ = 0;
};

TEST_P(CpuAttentionTest, DecodesEveryFormatAndGroupSize) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (int n_group = 1; n_group <= 8; ++n_group) {
            check({format, format, 64, 64, n_group, 1, {1, 63, 700, 64, 130}, false, 2});
        }
    }
}

TEST_P(CpuAttentionTest, DecodesEveryHeadSize) {
    for (const int head_dim : {32, 64, 80, 96, 128, 256}) {
        for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
            if (!can_attend(format, format, head_dim, head_dim)) {
                EXPECT_EQ(head_dim, 80);
                continue;
            }
            check({format, format, head_dim, head_dim, 3, 1, {257, 5}, false, 2});
        }
    }
    check({KvFormat::kF32, KvFormat::kQ4_0, 80, 32, 4, 1, {200}, false, 1});
}

TEST_P(CpuAttentionTest, PrefillsEveryFormatAndHeadSize) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (const int head_dim : {32, 64, 80, 96, 128}) {
            if (!can_attend(format, format, head_dim, head_dim)) { continue; }
            check({format, format, head_dim, head_dim, 4, 37, {37, 190}, false, 2});
        }
    }
    check({KvFormat::kF16, KvFormat::kQ8_0, 96, 64, 4, 50, {200}, false, 1});
}

TEST_P(CpuAttentionTest, PrefillsEveryGroupSize) {
    for (int n_group = 1; n_group <= 8; ++n_group) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 32, n_group, 70, {70, 333}, false, 3});
    }
}

TEST_P(CpuAttentionTest, RespectsPositionsAfterEviction) {
    for (const int n_queries : {1, 2, 5, 9, 64, 150}) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 32, 2, n_queries, {40, 9, 200, 1}, true, 2});
        check({KvFormat::kF16, KvFormat::kBF16, 64, 32, 3, n_queries, {150, 90}, true, 2});
    }
}

// Two prompts that several sequences have in common, each with more behind it, beside sequences with entries of their own.
TEST_P(CpuAttentionTest, LanesThatShareEntriesHaveTheBitsTheyHaveAlone) {
    std::mt19937 random(3);
    const auto below = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const int n_lanes = 24 + 4 * static_cast<int>(std::thread::hardware_concurrency());  // enough for all its threads
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (const int n_group : {1, 2, 3, 5, 8}) {
            Case c{format, format, 64, 64, n_group, 1 + below(8 / n_group), {}, false, 2};
            std::vector<int> n_shared;
            for (int l = 0; l < n_lanes; ++l) {
                n_shared.push_back(l % 3 == 2 ? 0 : l < 3 ? 900 : 100 + below(700));
                c.lengths.push_back(n_shared.back() + c.n_queries + below(300));
            }
            SCOPED_TRACE(describe(c));
            Problem problem(c, ++seed_);
            problem.task().n_peers = 2;  // one sequence's: spans are short
            problem.task().softcap = n_group == 3 ? 20.0F : 0.0F;
            for (int l = 0; l < n_lanes; ++l) {
                const auto lane = static_cast<size_t>(l);
                if (n_shared[lane] > 0) { problem.share(lane % 3, lane, n_shared[lane], 7 + lane % 3); }
            }
            problem.run(plan_, scratch_);
            EXPECT_LT(plan_.n_jobs(), static_cast<int>(plan_.units().size())) << "nothing was computed together";
            const std::vector<float> together = problem.out();
            if (n_group != 3) { EXPECT_LE(problem.error(), testing::tolerance(c)); }

            for (LaneView & lane : problem.task().lanes) { lane.base = 0; }
            problem.run(plan_, scratch_);
            EXPECT_EQ(plan_.n_jobs(), static_cast<int>(plan_.units().size()));
            EXPECT_EQ(std::memcmp(together.data(), problem.out().data(), together.size() * sizeof(float)), 0);
        }
    }
}

TEST_P(CpuAttentionTest, FillsAllThreadsWithOneLongLane) {
    check({KvFormat::kF32, KvFormat::kF32, 32, 32, 4, 1, {9000}, false, 4});
    check({KvFormat::kF32, KvFormat::kF32, 32, 32, 4, 30, {5000}, false, 4});
    check({KvFormat::kQ8_0, KvFormat::kQ4_0, 32, 32, 1, 4, {5000, 3}, false, 4});
}

TEST_P(CpuAttentionTest, ResultDoesNotDependOnTheNumberOfThreads) {
    for (const int n_queries : {1, 40}) {
        Case c{KvFormat::kF16, KvFormat::kF16, 64, 64, 4, n_queries, {3000, 50, 700}, false, 1};
        Problem alone(c, 5);
        alone.run(plan_, scratch_);
        c.n_threads = 3;
        Problem together(c, 5);
        together.run(plan_, scratch_);
        for (size_t i = 0; i < alone.out().size(); ++i) {
            if (!std::isnan(alone.out()[i])) { ASSERT_EQ(alone.out()[i], together.out()[i]) << i; }
        }
    }
}

TEST_P(CpuAttentionTest, RandomRaggedShapes) {
    std::mt19937 random(77);
    const auto pick = [&random](int low, int high) {
        return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    for (int i = 0; i < 40; ++i) {
        Case c;
        c.k = static_cast<KvFormat>(pick(0, 4));
        c.v = static_cast<KvFormat>(pick(0, 4));
        c.head_dim = 32 * pick(1, 4);
        c.head_dim_v = 32 * pick(1, 4);
        c.n_group = pick(1, 8);
        c.evicted = pick(0, 1) == 1;
        c.n_queries = pick(0, 2) == 0 ? pick(1, 90) : pick(1, 3);
        c.lengths.clear();
        for (int l = pick(1, 5); l > 0; --l) { c.lengths.push_back(c.n_queries + pick(0, 400)); }
        c.n_threads = pick(1, 3);
        check(c);
    }
}

TEST_P(CpuAttentionTest, WhatIsNotANumberStaysSo) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (const int n_queries : {1, 40}) {
            const Case c{format, format, 64, 64, 3, n_queries, {200, 70}, false, 1};
            SCOPED_TRACE(describe(c));
            for (const float wrong : {NAN, INFINITY}) {
                Problem problem(c, ++seed_);
                problem.query_number(1, 0, 2, 37) = wrong;
                problem.run(plan_, scratch_);
                for (int t = 0; t < n_queries; ++t) {
                    for (int g = 0; g < 3; ++g) {
                        for (const float one : problem.out_of(1, t, g)) { ASSERT_EQ(std::isnan(one), t == 0 && g == 2) << t; }
                    }
                }
            }
        }
    }
}

TEST(CpuAttention, LargeScoresDoNotOverflow) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kQ8_0}) {
        for (const int n_queries : {1, 40}) {
            Problem problem({format, format, 32, 32, 2, n_queries, {300}, false, 1}, 3);
            AttentionPlan plan;
            AttentionScratch scratch;
            problem.scale_queries(200.0F);
            problem.run(plan, scratch);
            // Scores of about 1000: their own rounding is 1e-4, that of queries rounded to 16 bits 1e-2.
            EXPECT_LE(problem.error(), format == KvFormat::kF32 ? 1e-3 : 3e-2);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuAttentionTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::cpu_attention_test
