// observe_test.cpp - everything that can be observed of given queries, by the CPU's kernel and on the portable path, against
// plain f64 code: ragged lanes, queries older than a whole lane, every K type.
#include "evidence/observe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <ostream>

#include "attention/random_lanes.h"

namespace pith::observe_test {
namespace {

using testing::LaneCase;
using testing::norm;
using testing::RandomLanes;
using testing::Vector;

struct ObserveCase {
    LaneCase lanes;
    bool kernel;
    float softcap = 0;
    bool sinks = false;
};

void PrintTo(const ObserveCase & c, std::ostream * out) {
    testing::PrintTo(c.lanes, out);
    *out << (c.kernel ? " kernel" : " portable") << (c.softcap > 0 ? " soft-cap" : "") << (c.sinks ? " sinks" : "");
}

// The portable path multiplies in the K type's precision.
double tolerance_of(const ObserveCase & c) {
    if (c.kernel || c.lanes.type == GGML_TYPE_F32) { return 1e-5; }
    return c.lanes.type == GGML_TYPE_F16 ? 5e-3 : 3e-2;
}

constexpr int kFirst = 110;
constexpr int kLast = 40;
constexpr HeadDistance kDistances[] = {HeadDistance::kCosine, HeadDistance::kPearson, HeadDistance::kBhattacharyya,
                                       HeadDistance::kJensenShannon, HeadDistance::kEuclidean};

ObserveWants everything(HeadDistance distance) {
    return {.column_sum = true,
            .group_sq = true,
            .column_max = true,
            .last = true,
            .head_sq = true,
            .entropy = true,
            .profile = distance,
            .rows = true};
}

// A row as the distance wants it, over the whole lane.
Vector unit_row(Vector p, HeadDistance distance) {
    if (distance == HeadDistance::kBhattacharyya) {
        for (double & one : p) { one = std::sqrt(one); }
    }
    if (distance == HeadDistance::kPearson && norm(p) > 0) {
        const double mean = std::accumulate(p.begin(), p.end(), 0.0) / static_cast<double>(p.size());
        for (double & one : p) { one -= mean; }
    }
    if (distance == HeadDistance::kPearson || distance == HeadDistance::kCosine) {
        const double size = norm(p);
        for (double & one : p) { one = size > 0 ? one / size : 0.0; }
    }
    return p;
}

class Observe : public ::testing::TestWithParam<ObserveCase> {
protected:
    // Every third position of the prompt, and the last.
    void choose_queries() {
        for (int p = 1; p < lanes_.n_seen(); p += 3) { positions_.push_back(p); }
        positions_.push_back(lanes_.n_seen() - 1);
        for (const int p : positions_) {
            queries_.insert(queries_.end(), lanes_.queries(p), lanes_.queries(p) + lanes_.row_size());
        }
    }
    void SetUp() override {
        lanes_.runner().set_custom_operations(GetParam().kernel);
        choose_queries();
    }
    Observed observe(const ObserveWants & wants) {
        Observed out;
        const Status status = observe_queries(lanes_.runner(), lanes_.cache(), 0, 0, queries_.data(), positions_, wants, out);
        EXPECT_TRUE(status.ok()) << status.message();
        return out;
    }
    void expect_equals_plain_code(const Observed & got, HeadDistance distance);

    RandomLanes lanes_{GetParam().lanes.type,
                       GetParam().lanes.n_kv_heads,
                       GetParam().lanes.n_group,
                       GetParam().lanes.head_dim,
                       kFirst,
                       kLast,
                       0,
                       GetParam().softcap,
                       GetParam().sinks};
    std::vector<int32_t> positions_;
    std::vector<float> queries_;
};

void Observe::expect_equals_plain_code(const Observed & got, HeadDistance distance) {
    const double tolerance = tolerance_of(GetParam());
    const auto n = static_cast<int>(positions_.size());
    const int n_group = lanes_.shape().n_group;
    for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
        const auto length = static_cast<size_t>(lanes_.length(h));
        std::vector<Vector> group_means(static_cast<size_t>(n), Vector(length, 0.0));
        for (int head = h * n_group; head < (h + 1) * n_group; ++head) {
            Vector sums(length, 0.0);
            Vector squares(length, 0.0);
            Vector largest(length, 0.0);
            Vector profile(length, 0.0);
            double entropy = 0;
            for (int i = 0; i < n; ++i) {
                const auto at = static_cast<size_t>(i);
                const Vector p = lanes_.probabilities(head, positions_[at]);
                const Vector unit = unit_row(p, distance);
                const auto row = got.rows.row(head * n + i);
                for (size_t j = 0; j < length; ++j) {
                    sums[j] += p[j];
                    squares[j] += p[j] * p[j];
                    largest[j] = std::max(largest[j], p[j]);
                    profile[j] += unit[j] / n;
                    group_means[at][j] += p[j] / n_group;
                    const bool past = lanes_.cache().positions(h)[j] < positions_.front();
                    if (p[j] > 0 && past) { entropy -= p[j] * std::log(p[j]); }
                    ASSERT_NEAR(row[j], p[j], tolerance);
                    if (i == n - 1) { ASSERT_NEAR(got.last.row(head)[j], p[j], tolerance); }
                }
            }
            for (size_t j = 0; j < length; ++j) {
                ASSERT_NEAR(got.column_sum.row(head)[j], sums[j], tolerance * n);
                ASSERT_NEAR(got.head_sq.row(head)[j], squares[j], tolerance * n);
                ASSERT_NEAR(got.column_max.row(head)[j], largest[j], tolerance);
                ASSERT_NEAR(got.profile.row(head)[j], profile[j], tolerance) << static_cast<int>(distance);
            }
            ASSERT_NEAR(got.entropy[static_cast<size_t>(head)], entropy, tolerance * (1 + entropy));
        }
        for (size_t j = 0; j < length; ++j) {
            double squares = 0;
            for (const Vector & mean : group_means) { squares += mean[j] * mean[j]; }
            ASSERT_NEAR(got.group_sq.row(h)[j], squares, tolerance * n);
        }
    }
}

TEST_P(Observe, EqualsPlainCodeForEveryDistance) {
    for (const HeadDistance distance : kDistances) { expect_equals_plain_code(observe(everything(distance)), distance); }
}

// Few rows are added up another way than many.
TEST_P(Observe, EqualsPlainCodeForTwoQueries) {
    positions_ = {lanes_.n_seen() - 3, lanes_.n_seen() - 1};
    queries_.clear();
    for (const int p : positions_) {
        queries_.insert(queries_.end(), lanes_.queries(p), lanes_.queries(p) + lanes_.row_size());
    }
    for (const HeadDistance distance : kDistances) { expect_equals_plain_code(observe(everything(distance)), distance); }
}

// What one lane keeps is newer than most queries, another holds a single entry.
TEST_P(Observe, EqualsPlainCodeWhereQueriesAreOlderThanTheLane) {
    Ragged<int32_t> keep;
    for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
        std::vector<int32_t> newest;
        for (int i = h == 1 ? lanes_.length(h) - 1 : lanes_.length(h) - 17; i < lanes_.length(h); ++i) { newest.push_back(i); }
        keep.push_row(newest);
    }
    lanes_.cache().compact(0, 0, keep);
    for (const HeadDistance distance : kDistances) { expect_equals_plain_code(observe(everything(distance)), distance); }
}

TEST_P(Observe, WhatIsAskedForDoesNotDependOnWhatElseIs) {
    const Observed all = observe(everything(HeadDistance::kCosine));
    EXPECT_EQ(observe({.column_sum = true}).column_sum, all.column_sum);
    EXPECT_EQ(observe({.group_sq = true}).group_sq, all.group_sq);
    EXPECT_EQ(observe({.head_sq = true}).head_sq, all.head_sq);
    EXPECT_EQ(observe({.column_max = true}).column_max, all.column_max);
    EXPECT_EQ(observe({.entropy = true}).entropy, all.entropy);
    EXPECT_EQ(observe({.profile = HeadDistance::kCosine}).profile, all.profile);
    EXPECT_EQ(observe({.rows = true}).rows, all.rows);
    const Observed last = observe({.last = true});  // the other queries are not even looked at
    for (size_t j = 0; j < last.last.size(); ++j) { ASSERT_NEAR(last.last.flat()[j], all.last.flat()[j], 1e-6); }
    EXPECT_EQ(last.column_sum.n_rows(), 0);
    EXPECT_EQ(last.rows.n_rows(), 0);
}

std::vector<ObserveCase> observe_cases() {
    std::vector<ObserveCase> cases;
    for (const bool kernel : {true, false}) {
        for (const LaneCase & lanes :
             {LaneCase{GGML_TYPE_F32, 3, 1, 32}, LaneCase{GGML_TYPE_F32, 2, 4, 64}, LaneCase{GGML_TYPE_F32, 1, 7, 80},
              LaneCase{GGML_TYPE_F16, 2, 2, 64}, LaneCase{GGML_TYPE_BF16, 2, 2, 64}, LaneCase{GGML_TYPE_Q8_0, 2, 3, 64},
              LaneCase{GGML_TYPE_Q4_0, 2, 2, 32}}) {
            cases.push_back({lanes, kernel});
        }
        cases.push_back({{GGML_TYPE_F32, 2, 4, 64}, kernel, 1.5F, false});
        cases.push_back({{GGML_TYPE_F32, 3, 1, 32}, kernel, 0.0F, true});
        cases.push_back({{GGML_TYPE_F32, 2, 3, 64}, kernel, 0.7F, true});
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(TypesGroupsAndPaths, Observe, ::testing::ValuesIn(observe_cases()));

// Bit for bit: a plan must not change with the number of threads.
TEST(ObserveOnCpu, IsTheSameForAnyNumberOfThreads) {
    RandomLanes lanes(GGML_TYPE_F16, 3, 2, 64, 150, 70);
    std::vector<int32_t> positions(static_cast<size_t>(lanes.n_seen()));
    std::iota(positions.begin(), positions.end(), 0);
    const ObserveWants wants = everything(HeadDistance::kPearson);
    std::vector<Observed> results;
    for (const int n_threads : {1, 2, 3, 7}) {
        auto backend = make_cpu_backend(n_threads);
        ASSERT_TRUE(backend.ok());
        GraphRunner runner(*backend);
        results.emplace_back();
        EXPECT_TRUE(observe_queries(runner, lanes.cache(), 0, 0, lanes.queries(), positions, wants, results.back()).ok());
        ggml_backend_free(*backend);
    }
    for (const Observed & result : results) {
        EXPECT_EQ(result.column_sum, results[0].column_sum);
        EXPECT_EQ(result.group_sq, results[0].group_sq);
        EXPECT_EQ(result.last, results[0].last);
        EXPECT_EQ(result.head_sq, results[0].head_sq);
        EXPECT_EQ(result.entropy, results[0].entropy);
        EXPECT_EQ(result.profile, results[0].profile);
        EXPECT_EQ(result.rows, results[0].rows);
    }
}

TEST(ObserveOnCpu, ALaneWithoutEntriesPaysNothing) {
    RandomLanes lanes(GGML_TYPE_F32, 2, 2, 32, 30, 10);
    Ragged<int32_t> keep;
    keep.push_row({});
    keep.push_row(std::vector<int32_t>{0, 1, 2});
    lanes.cache().compact(0, 0, keep);
    const std::vector<int32_t> positions{39};
    Observed got;
    ASSERT_TRUE(observe_queries(lanes.runner(), lanes.cache(), 0, 0, lanes.queries(39), positions,
                                everything(HeadDistance::kPearson), got)
                    .ok());
    EXPECT_EQ(got.column_sum.length(0), 0);
    EXPECT_EQ(got.entropy[0], 0.0);
    const auto sums = got.column_sum.row(2);
    EXPECT_NEAR(sums[0] + sums[1] + sums[2], 1.0, 1e-6);
    keep = Ragged<int32_t>(std::vector<int>{0, 0});
    lanes.cache().compact(0, 0, keep);
    EXPECT_TRUE(observe_queries(lanes.runner(), lanes.cache(), 0, 0, lanes.queries(39), positions,
                                everything(HeadDistance::kPearson), got)
                    .ok());
}

// A policy must not plan by numbers that are none.
TEST(ObserveOnCpu, AKeyThatIsNotANumberMakesItsRowsNone) {
    for (const int n_queries : {1, 40}) {
        RandomLanes lanes(GGML_TYPE_F32, 1, 1, 32, 30, 40);
        auto * key = static_cast<float *>(lanes.cache().k(0)->data) + lanes.cache().cell(0, 0, 0, 3) * 32;
        key[5] = std::numeric_limits<float>::quiet_NaN();
        std::vector<int32_t> positions(static_cast<size_t>(n_queries));
        std::iota(positions.begin(), positions.end(), lanes.n_seen() - n_queries);
        Observed got;
        ASSERT_TRUE(observe_queries(lanes.runner(), lanes.cache(), 0, 0, lanes.queries(lanes.n_seen() - n_queries), positions,
                                    everything(HeadDistance::kCosine), got)
                        .ok());
        EXPECT_TRUE(std::isnan(got.column_sum.flat()[0]));
        EXPECT_TRUE(std::isnan(got.group_sq.flat()[0]));
        EXPECT_TRUE(std::isnan(got.profile.flat()[0]));
        EXPECT_TRUE(std::isnan(got.entropy[0]));
    }
}

}  // namespace
}  // namespace pith::observe_test
