// cpu_columns_test.cpp - the sums over attention probabilities that evidence is made of, against plain f64 code: random ragged
// lanes, every key format, every instruction set of this machine, beside an output and alone, with std::thread.
#include "attention/cpu/cpu_columns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "attention/attention_problem.h"

namespace pith::cpu_columns_test {
namespace {

using testing::Case;
using testing::describe;
using testing::Problem;
using Vector = std::vector<double>;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0};
constexpr HeadDistance kDistances[] = {HeadDistance::kCosine, HeadDistance::kPearson, HeadDistance::kBhattacharyya,
                                       HeadDistance::kJensenShannon, HeadDistance::kEuclidean};

// Everything that can be asked for; all of it is added to what is there, but the rows themselves.
struct Columns {
    Columns(Problem & problem, HeadDistance distance) {
        const Case & c = problem.shape();
        ColumnTask & task = problem.task().columns;
        task.distance = distance;
        entropy.assign(c.lengths.size() * static_cast<size_t>(c.n_group), kBefore);
        for (double & one : entropy) { task.entropy.push_back(&one); }
        for (const int length : c.lengths) { task.past.push_back(past_of(length)); }
        const auto make = [&](std::vector<std::vector<float>> & kind, int per_lane, std::vector<float *> & pointers) {
            for (const int length : c.lengths) {
                for (int i = 0; i < per_lane; ++i) { kind.emplace_back(static_cast<size_t>(length), kBefore); }
            }
            for (auto & row : kind) { pointers.push_back(row.data()); }
        };
        make(sum, c.n_group, task.sum);
        make(squares, c.n_group, task.squares);
        make(group_squares, 1, task.group_squares);
        make(profile, c.n_group, task.profile);
        make(last, c.n_group, task.last);
        make(rows, c.n_group * c.n_queries, task.rows);
    }
    bool operator==(const Columns &) const = default;

    // Entries of a lane that count in the entropy: all but some of the newest, in one lane none of all.
    static int past_of(int length) { return length < 20 ? 0 : length - 17; }

    static constexpr float kBefore = 0.25F;
    std::vector<std::vector<float>> sum;
    std::vector<std::vector<float>> squares;
    std::vector<std::vector<float>> group_squares;
    std::vector<std::vector<float>> profile;
    std::vector<std::vector<float>> last;
    std::vector<std::vector<float>> rows;
    Vector entropy;
};

double norm(const Vector & x) {
    double squares = 0;
    for (const double one : x) { squares += one * one; }
    return std::sqrt(squares);
}

// A row as the distance wants it, over the whole lane; nothing where it sees nothing.
Vector unit_row(Vector p, HeadDistance distance) {
    const double sum = norm(p);
    if (distance == HeadDistance::kBhattacharyya) {
        for (double & one : p) { one = std::sqrt(one); }
    }
    if (distance == HeadDistance::kPearson && sum > 0) {
        const double mean = 1.0 / static_cast<double>(p.size());
        for (double & one : p) { one -= mean; }
    }
    if (distance == HeadDistance::kPearson || distance == HeadDistance::kCosine) {
        const double size = norm(p);
        for (double & one : p) { one = size > 1e-9 ? one / size : 0.0; }
    }
    return p;
}

// Relative to the largest of the row, which holds `before` in front of what was added.
// A square has twice the relative error of what is squared.
void expect_row(const std::vector<float> & got, const Vector & expected, double before, double tolerance, const char * what) {
    double largest = 0;
    for (const double one : expected) { largest = std::max(largest, std::abs(one)); }
    for (size_t j = 0; j < expected.size(); ++j) {
        ASSERT_NEAR(got[j] - before, expected[j], tolerance * largest + 1e-6 * before) << what << " of entry " << j;
    }
}

void expect_columns(const Problem & problem, const Columns & got, HeadDistance distance) {
    const Case & c = problem.shape();
    const double tolerance = testing::tolerance(c);
    for (size_t l = 0; l < c.lengths.size(); ++l) {
        const auto length = static_cast<size_t>(c.lengths[l]);
        std::vector<Vector> means(static_cast<size_t>(c.n_queries), Vector(length, 0.0));
        for (int g = 0; g < c.n_group; ++g) {
            const size_t head = l * static_cast<size_t>(c.n_group) + static_cast<size_t>(g);
            Vector sum(length, 0.0);
            Vector squares(length, 0.0);
            Vector profile(length, 0.0);
            double entropy = 0;
            for (int t = 0; t < c.n_queries; ++t) {
                const Vector p = problem.probabilities(l, t, g);
                const Vector unit = unit_row(p, distance);
                for (size_t j = 0; j < length; ++j) {
                    sum[j] += p[j];
                    squares[j] += p[j] * p[j];
                    profile[j] += unit[j];
                    means[static_cast<size_t>(t)][j] += p[j] / c.n_group;
                    const bool past = static_cast<int>(j) < Columns::past_of(c.lengths[l]);
                    if (p[j] > 0 && past) { entropy -= p[j] * std::log(p[j]); }
                }
                // Entries that a query does not see need not be written.
                const auto compare = [&](std::vector<float> row, const char * what) {
                    for (size_t j = 0; j < length; ++j) { row[j] = p[j] == 0 && row[j] == Columns::kBefore ? 0.0F : row[j]; }
                    expect_row(row, p, 0, tolerance, what);
                };
                compare(got.rows[head * static_cast<size_t>(c.n_queries) + static_cast<size_t>(t)], "row");
                if (t == c.n_queries - 1) { compare(got.last[head], "last row"); }
            }
            expect_row(got.sum[head], sum, Columns::kBefore, tolerance, "sum");
            expect_row(got.squares[head], squares, Columns::kBefore, 2 * tolerance, "squares");
            expect_row(got.profile[head], profile, Columns::kBefore, tolerance, "profile");
            EXPECT_NEAR(got.entropy[head] - double{Columns::kBefore}, entropy, tolerance * (1 + entropy));
        }
        Vector squares(length, 0.0);
        for (const Vector & mean : means) {
            for (size_t j = 0; j < length; ++j) { squares[j] += mean[j] * mean[j]; }
        }
        expect_row(got.group_squares[l], squares, Columns::kBefore, 2 * tolerance, "group squares");
    }
}

class CpuColumnsTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }
    void check(const Case & c) {
        const HeadDistance distance = kDistances[seed_ % 5];
        SCOPED_TRACE(describe(c) + " distance " + std::to_string(static_cast<int>(distance)));
        Problem problem(c, ++seed_);
        Columns columns(problem, distance);
        problem.run(plan_, scratch_);
        expect_columns(problem, columns, distance);
        EXPECT_LE(problem.error(), testing::tolerance(c));
    }

    AttentionPlan plan_;  // one for all: it must not remember
    AttentionScratch scratch_;
    uint32_t seed_ = 0;
};

TEST_P(CpuColumnsTest, EveryFormatAndGroupSizeAlone) {
    for (const KvFormat format : kFormats) {
        for (int n_group = 1; n_group <= 8; ++n_group) { check({format, format, 32, 0, n_group, 19, {19, 70}, false, 2}); }
    }
}

TEST_P(CpuColumnsTest, EveryFormatBesideAnOutput) {
    for (const KvFormat format : kFormats) { check({format, format, 64, 32, 2, 50, {130, 50}, false, 2}); }
}

TEST_P(CpuColumnsTest, FewRowsOverSpansOfALongLane) {
    for (int n_group = 1; n_group <= 8; ++n_group) {
        const KvFormat format = kFormats[n_group % 5];
        check({format, format, 32, 32, n_group, 1, {700, 1, 130}, false, 3});
        check({format, format, 32, 0, n_group, 16 / n_group, {300, 20}, false, 3});
    }
}

TEST_P(CpuColumnsTest, EveryNumberOfQueries) {
    for (const int n_queries : {5, 16, 17, 31, 33, 48, 49, 64, 65, 97, 200}) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 0, 4, n_queries, {n_queries + 9}, false, 2});
    }
}

// Lanes whose entries are all newer than some of the queries among them, and one that holds a single entry.
TEST_P(CpuColumnsTest, RespectsPositionsAfterEviction) {
    for (const int n_queries : {1, 2, 9, 64, 120}) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 32, 2, n_queries, {40, 9, 100, 1}, true, 2});
        check({KvFormat::kF16, KvFormat::kF16, 32, 0, 3, n_queries, {90, 1}, true, 2});
    }
}

TEST_P(CpuColumnsTest, RandomRaggedShapes) {
    std::mt19937 random(5);
    const auto pick = [&random](int low, int high) {
        return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    for (int i = 0; i < 30; ++i) {
        Case c;
        c.k = kFormats[pick(0, 4)];
        c.v = kFormats[pick(0, 4)];
        c.head_dim = 32 * pick(1, 4);
        c.head_dim_v = 32 * pick(0, 2);
        c.n_group = pick(1, 8);
        c.evicted = pick(0, 1) == 1;
        c.n_queries = pick(0, 2) == 0 ? pick(1, 60) : pick(1, 4);
        c.lengths.clear();
        for (int l = pick(1, 3); l > 0; --l) { c.lengths.push_back(c.n_queries + pick(0, 150)); }
        c.n_threads = pick(1, 3);
        check(c);
    }
}

TEST_P(CpuColumnsTest, ResultDoesNotDependOnTheNumberOfThreads) {
    for (const int n_queries : {1, 150}) {
        Case c{KvFormat::kF16, KvFormat::kF16, 32, 32, 2, n_queries, {400, 160}, false, 1};
        Problem alone(c, 5);
        Columns of_one(alone, HeadDistance::kPearson);
        alone.run(plan_, scratch_);
        c.n_threads = 3;
        Problem together(c, 5);
        Columns of_three(together, HeadDistance::kPearson);
        together.run(plan_, scratch_);
        EXPECT_EQ(of_one, of_three);
    }
}

// A sum that leaves the old one alone is the same, bit for bit, as one in its place: few rows, strands, a lane of one entry.
TEST_P(CpuColumnsTest, ASumMayGoBesideTheOneBefore) {
    for (const int n_queries : {1, 4, 70}) {
        SCOPED_TRACE(n_queries);
        const Case c{KvFormat::kF16, KvFormat::kQ8_0, 32, 32, 2, n_queries, {500, 170, n_queries}, false, 2};
        const auto n_new = static_cast<size_t>(n_queries);
        Problem in_place(c, 9);
        Columns columns(in_place, HeadDistance::kCosine);
        for (auto & row : columns.sum) { std::fill(row.end() - n_queries, row.end(), 0.0F); }
        const auto before = columns.sum;
        in_place.run(plan_, scratch_);

        Problem beside(c, 9);
        Columns other(beside, HeadDistance::kCosine);
        ColumnTask & task = beside.task().columns;
        for (size_t head = 0; head < before.size(); ++head) {
            std::ranges::fill(other.sum[head], -7.0F);  // what some token left there
            task.sum_before.push_back({before[head].data(), before[head].size() - n_new});
        }
        beside.run(plan_, scratch_);
        EXPECT_EQ(columns, other);
    }
}

TEST_P(CpuColumnsTest, WhatIsCancelledIsLeftUndone) {
    const std::atomic<bool> cancel = true;
    const Case c{KvFormat::kF16, KvFormat::kF16, 32, 32, 2, 70, {500, 170}, false, 2};
    Problem problem(c, 9);
    Columns columns(problem, HeadDistance::kCosine);
    const Columns before = columns;
    plan_.cancel = &cancel;
    problem.run(plan_, scratch_);
    EXPECT_FALSE(plan_.finished());
    EXPECT_EQ(columns, before);
    plan_.cancel = nullptr;
    problem.run(plan_, scratch_);
    EXPECT_TRUE(plan_.finished());
    expect_columns(problem, columns, HeadDistance::kCosine);
}

// What is summed must not change the attention: sessions that gather evidence agree with those that do not.
TEST_P(CpuColumnsTest, TheOutputIsThatWithoutColumns) {
    for (const int n_queries : {1, 70}) {
        const Case c{KvFormat::kF16, KvFormat::kQ8_0, 32, 32, 4, n_queries, {500, 170}, false, 2};  // several spans
        Problem plain(c, 9);
        plain.run(plan_, scratch_);
        Problem summing(c, 9);
        const Columns columns(summing, HeadDistance::kCosine);
        summing.run(plan_, scratch_);
        for (size_t i = 0; i < plain.out().size(); ++i) {
            if (!std::isnan(plain.out()[i])) { ASSERT_EQ(plain.out()[i], summing.out()[i]) << n_queries << " at " << i; }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuColumnsTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::cpu_columns_test
