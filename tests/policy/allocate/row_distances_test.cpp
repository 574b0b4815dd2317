// row_distances_test.cpp - mean distances over all pairs of sampled rows, against the formulas in f64.
#include "policy/allocate/row_distances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "policy/evidence_maker.h"

namespace pith::test::row_distances_test {
namespace {

using Row = std::vector<double>;  // by position
using Head = std::vector<Row>;

constexpr size_t kPositions = 1200;  // more than any layer here has
constexpr HeadDistance kDistances[] = {HeadDistance::kJensenShannon, HeadDistance::kEuclidean};

double row_distance(const Row & a, const Row & b, HeadDistance distance) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double m = (a[i] + b[i]) / 2;
        if (distance == HeadDistance::kEuclidean) {
            sum += (a[i] - b[i]) * (a[i] - b[i]);
            continue;
        }
        if (a[i] > 0) sum += a[i] * std::log2(a[i] / m) / 2;
        if (b[i] > 0) sum += b[i] * std::log2(b[i] / m) / 2;
    }
    return std::sqrt(std::max(sum, 0.0));
}

double mean_of_pairs(const Head & a, const Head & b, HeadDistance distance) {
    double sum = 0;
    for (const Row & x : a) {
        for (const Row & y : b) sum += row_distance(x, y, distance);
    }
    return sum / static_cast<double>(a.size() * b.size());
}

// Attention of a layer with one lane a head: queries[s] is the position of sampled query s, lanes hold every `every`-th
// position from `h` on. `heads` gets the rows by position.
LayerEvidence attention_of(Rng & rng, int n_heads, int n, const std::vector<int> & queries, int every,
                           std::vector<Head> & heads) {
    LayerEvidence evidence;
    evidence.n_kv_heads = n_heads;
    evidence.n_group = 1;
    evidence.n_sampled = static_cast<int>(queries.size());
    heads.assign(static_cast<size_t>(n_heads), {});
    for (int h = 0; h < n_heads; ++h) {
        std::vector<int32_t> positions;
        for (int p = h % every; p < n; p += every) positions.push_back(p);
        evidence.positions.push_row(positions);
        const double sharpness = 1.0 + 2.0 * h;
        for (const int query : queries) {
            std::vector<float> row(positions.size(), 0.0F);
            double sum = 0;
            for (size_t j = 0; j < row.size() && positions[j] <= query; ++j) {
                row[j] = static_cast<float>(std::exp(sharpness * random_int(rng, 0, 1000) / 1000.0));
                sum += static_cast<double>(row[j]);
            }
            Row dense(kPositions, 0.0);
            for (size_t j = 0; j < row.size(); ++j) {
                row[j] = sum > 0 ? static_cast<float>(static_cast<double>(row[j]) / sum) : 0.0F;
                dense[static_cast<size_t>(positions[j])] = static_cast<double>(row[j]);
            }
            evidence.sampled_rows.push_row(row);
            heads[static_cast<size_t>(h)].push_back(dense);
        }
    }
    return evidence;
}

// Every second task on another thread.
Status run_on_two(int n_tasks, const std::function<void(int i)> & task) {
    std::thread other([&] {
        for (int i = 1; i < n_tasks; i += 2) task(i);
    });
    for (int i = 0; i < n_tasks; i += 2) task(i);
    other.join();
    return {};
}

void expect_as_formulas(const SampledRows & a, const std::vector<Head> & heads_a, const SampledRows & b,
                        const std::vector<Head> & heads_b, HeadDistance distance) {
    std::vector<double> means;
    ASSERT_TRUE(mean_row_distances(a, b, distance, run_in_turn, means).ok());
    ASSERT_EQ(means.size(), heads_a.size() * heads_b.size());
    for (size_t g = 0; g < heads_a.size(); ++g) {
        for (size_t o = 0; o < heads_b.size(); ++o) {
            EXPECT_NEAR(means[g * heads_b.size() + o], mean_of_pairs(heads_a[g], heads_b[o], distance), 2e-6)
                << "heads " << g << " and " << o;
        }
    }
    std::vector<double> on_two;
    ASSERT_TRUE(mean_row_distances(a, b, distance, run_on_two, on_two).ok());
    EXPECT_EQ(on_two, means);
}

// Rows of very different lengths, some of one entry, over several blocks of columns.
TEST(RowDistances, EqualTheFormulasForQueriesAnywhere) {
    const std::vector<int> queries = {0, 1, 62, 63, 64, 65, 300, 511, 512, 700, 1023, 1100, 1199};
    const std::vector<int> others = {5, 480, 1150};
    for (const HeadDistance distance : kDistances) {
        for (const int every : {1, 3}) {
            SCOPED_TRACE("distance " + std::to_string(static_cast<int>(distance)) + ", every " + std::to_string(every));
            Rng rng(5);
            std::vector<Head> heads;
            std::vector<Head> heads_before;
            const SampledRows before(attention_of(rng, 2, 1160, others, every, heads_before), distance);
            const SampledRows rows(attention_of(rng, 3, 1200, queries, every, heads), distance);
            expect_as_formulas(rows, heads, rows, heads, distance);
            expect_as_formulas(rows, heads, before, heads_before, distance);
        }
    }
}

// More rows than a block holds.
TEST(RowDistances, EqualTheFormulasForManyQueries) {
    std::vector<int> queries;
    for (int query = 20; query < 170; ++query) queries.push_back(query);
    for (const HeadDistance distance : kDistances) {
        Rng rng(6);
        std::vector<Head> heads;
        const SampledRows rows(attention_of(rng, 2, 180, queries, 1, heads), distance);
        expect_as_formulas(rows, heads, rows, heads, distance);
    }
}

// Where two heads hardly differ, squares of norms would cancel.
TEST(RowDistances, SeeASmallDifference) {
    const std::vector<int> queries = {400, 401, 402, 403};
    for (const HeadDistance distance : kDistances) {
        Rng rng(7);
        std::vector<Head> heads;
        LayerEvidence evidence = attention_of(rng, 2, 410, queries, 1, heads);
        for (int s = 0; s < 4; ++s) {
            for (int j = 0; j < 410; ++j) {
                const float factor = j % 2 == 0 ? 1.002F : 0.998F;
                evidence.sampled_rows.row(4 + s)[static_cast<size_t>(j)] =
                    factor * evidence.sampled_rows.row(s)[static_cast<size_t>(j)];
            }
        }
        for (int s = 0; s < 4; ++s) {  // one query alone, so that its own pair is all there is
            LayerEvidence one;
            one.n_kv_heads = 2;
            one.n_group = 1;
            one.n_sampled = 1;
            one.positions = evidence.positions;
            std::vector<Head> rows(2);
            for (int h = 0; h < 2; ++h) {
                const auto row = evidence.sampled_rows.row(4 * h + s);
                one.sampled_rows.push_row(row);
                rows[static_cast<size_t>(h)].emplace_back(row.begin(), row.end());
            }
            const SampledRows sampled(one, distance);
            std::vector<double> means;
            ASSERT_TRUE(mean_row_distances(sampled, sampled, distance, run_in_turn, means).ok());
            const double expected = mean_of_pairs(rows[0], rows[1], distance);
            const bool euclidean = distance == HeadDistance::kEuclidean;
            EXPECT_NEAR(means[1], expected, euclidean ? 1e-5 * expected : 5e-4) << "query " << s;
            EXPECT_EQ(means[1], means[2]);
            EXPECT_EQ(means[0], 0) << "a row and itself";
        }
    }
}

TEST(RowDistances, WithoutRowsAreOneAndWhatIsNotANumberShows) {
    Rng rng(8);
    std::vector<Head> heads;
    const LayerEvidence none = attention_of(rng, 2, 30, {}, 1, heads);
    LayerEvidence broken = attention_of(rng, 2, 30, {20, 25}, 1, heads);
    broken.sampled_rows.row(3)[7] = std::numeric_limits<float>::quiet_NaN();
    for (const HeadDistance distance : kDistances) {
        std::vector<double> means;
        const SampledRows nothing(none, distance);
        ASSERT_TRUE(mean_row_distances(nothing, nothing, distance, run_in_turn, means).ok());
        EXPECT_EQ(means, std::vector<double>(4, 1.0));
        const SampledRows rows(broken, distance);
        ASSERT_TRUE(mean_row_distances(rows, rows, distance, run_in_turn, means).ok());
        EXPECT_TRUE(std::isfinite(means[0]));
        EXPECT_FALSE(std::isfinite(means[1]));
        EXPECT_FALSE(std::isfinite(means[3]));
    }
}

}  // namespace
}  // namespace pith::test::row_distances_test
