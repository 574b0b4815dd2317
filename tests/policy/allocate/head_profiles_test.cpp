// head_profiles_test.cpp - distances between heads against plain loops over all pairs.
#include "policy/allocate/head_profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policy/evidence_maker.h"

namespace pith::test::head_profiles_test {
namespace {

using Row = std::vector<double>;  // by position

constexpr HeadDistance kDistances[] = {HeadDistance::kCosine, HeadDistance::kPearson, HeadDistance::kBhattacharyya,
                                       HeadDistance::kJensenShannon, HeadDistance::kEuclidean};

double dot(const Row & a, const Row & b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Rows are f32 as attention gives them, and all pairs of them are compared in f32.
double tolerance_of(HeadDistance distance) {
    return distance == HeadDistance::kJensenShannon || distance == HeadDistance::kEuclidean ? 2e-6 : 1e-9;
}

// What the profile is a mean of.
Row normalised(Row row, HeadDistance distance) {
    if (distance == HeadDistance::kPearson) {
        const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
        for (double & x : row) x -= mean;
    }
    if (distance == HeadDistance::kBhattacharyya) {
        for (double & x : row) x = std::sqrt(x);
        return row;
    }
    const double norm = std::sqrt(dot(row, row));
    for (double & x : row) x /= norm;
    return row;
}

// Two attention rows, from the textbook.
double row_distance(const Row & a, const Row & b, HeadDistance distance) {
    double sum = 0;
    switch (distance) {
        case HeadDistance::kCosine:
        case HeadDistance::kPearson:
        case HeadDistance::kBhattacharyya:
            return 1 - dot(normalised(a, distance), normalised(b, distance));
        case HeadDistance::kEuclidean:
            for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
            return std::sqrt(sum);
        case HeadDistance::kJensenShannon:
            break;
    }
    for (size_t i = 0; i < a.size(); ++i) {
        const double m = (a[i] + b[i]) / 2;
        if (a[i] > 0) sum += a[i] * std::log2(a[i] / m) / 2;
        if (b[i] > 0) sum += b[i] * std::log2(b[i] / m) / 2;
    }
    return std::sqrt(std::max(sum, 0.0));
}

// IR, μ and HD from the distance D(g, g') of any two heads; `before` is empty for layer 0.
template <class Head, class Distance>
LayerProfile by_pairs(const std::vector<Head> & heads, const std::vector<Head> & before, int n_group, Distance distance) {
    const auto mean_to = [&](const Head & head, const std::vector<Head> & others) {
        double sum = 0;
        for (const Head & other : others) sum += distance(head, other);
        return sum / static_cast<double>(others.size());
    };
    LayerProfile profile;
    profile.head_distance.assign(heads.size() / static_cast<size_t>(n_group), 0.0);
    double to_previous = 0;
    for (size_t g = 0; g < heads.size(); ++g) {
        const double own = mean_to(heads[g], heads);
        const double other = before.empty() ? own : mean_to(heads[g], before);
        profile.within += own / static_cast<double>(heads.size());
        to_previous += other / static_cast<double>(heads.size());
        profile.head_distance[g / static_cast<size_t>(n_group)] += std::max((own + other) / 2, 1e-6) / n_group;
    }
    profile.within = std::max(profile.within, 1e-6);
    profile.to_previous = std::max(to_previous, 1e-6);
    return profile;
}

void expect_near(const LayerProfile & found, const LayerProfile & expected, double tolerance) {
    EXPECT_NEAR(found.within, expected.within, tolerance);
    EXPECT_NEAR(found.to_previous, expected.to_previous, tolerance);
    ASSERT_EQ(found.head_distance.size(), expected.head_distance.size());
    for (size_t h = 0; h < expected.head_distance.size(); ++h) {
        EXPECT_NEAR(found.head_distance[h], expected.head_distance[h], tolerance) << "head " << h;
    }
}

// Causal attention of n_queries queries, the last ones of n positions, sharper or flatter by head.
std::vector<Row> random_attention(Rng & rng, int n, int n_queries) {
    const double sharpness = random_int(rng, 1, 60) / 8.0;
    std::vector<Row> rows;
    for (int query = n - n_queries; query < n; ++query) {
        Row row(static_cast<size_t>(n), 0.0);
        double sum = 0;
        for (int j = 0; j <= query; ++j) {
            row[static_cast<size_t>(j)] = std::exp(sharpness * random_int(rng, 0, 1000) / 1000.0);
            sum += row[static_cast<size_t>(j)];
        }
        for (double & x : row) x /= sum;
        rows.push_back(row);
    }
    return rows;
}

TEST(HeadProfiles, AreTheMeanDistanceOverAllPairsOfSampledQueries) {
    constexpr int kLanes = 3;
    constexpr int kGroup = 2;
    constexpr int kPositions = 50;
    constexpr int kQueries = 12;
    using Head = std::vector<Row>;
    for (const HeadDistance distance : kDistances) {
        Rng rng(11);
        HeadProfiles profiles(distance);
        std::vector<Head> before;
        for (int layer = 0; layer < 3; ++layer) {
            LayerEvidence evidence;
            evidence.layer = layer;
            evidence.n_kv_heads = kLanes;
            evidence.n_group = kGroup;
            evidence.n_sampled = kQueries;
            std::vector<int32_t> positions(kPositions);
            std::iota(positions.begin(), positions.end(), 0);
            for (int h = 0; h < kLanes; ++h) evidence.positions.push_row(positions);
            std::vector<Head> heads;
            for (int g = 0; g < kLanes * kGroup; ++g) {
                heads.push_back(random_attention(rng, kPositions, kQueries));
                std::vector<float> mean(kPositions, 0.0F);
                for (const Row & row : heads.back()) {
                    evidence.sampled_rows.push_row(std::vector<float>(row.begin(), row.end()));
                    const Row unit = normalised(row, distance);
                    for (size_t j = 0; j < unit.size(); ++j) mean[j] += static_cast<float>(unit[j] / kQueries);
                }
                evidence.profile.push_row(mean);
            }
            LayerProfile found;
            ASSERT_TRUE(profiles.add(evidence, found).ok());
            const auto all_pairs = [&](const Head & a, const Head & b) {
                double sum = 0;
                for (const Row & x : a) {
                    for (const Row & y : b) sum += row_distance(x, y, distance);
                }
                return sum / (kQueries * kQueries);
            };
            SCOPED_TRACE("distance " + std::to_string(static_cast<int>(distance)) + ", layer " + std::to_string(layer));
            expect_near(found, by_pairs(heads, before, kGroup, all_pairs), std::max(1e-6, tolerance_of(distance)));
            before = heads;
        }
    }
}

TEST(HeadProfiles, MatchEntriesByPositionWhereLanesAreRagged) {
    for (const HeadDistance distance : kDistances) {
        for (uint32_t seed = 1; seed <= 8; ++seed) {
            Rng rng(seed);
            const CacheShape shape{3, random_int(rng, 1, 3), random_int(rng, 1, 2), 8};
            const int n = random_int(rng, 1, 40);
            const bool by_rows = distance == HeadDistance::kJensenShannon || distance == HeadDistance::kEuclidean;
            using Head = std::vector<Row>;  // by position: the profile alone, or all sampled rows
            std::vector<Head> before;
            HeadProfiles profiles(distance);
            for (const LayerEvidence & evidence : make_ragged(rng, shape, n)) {
                const Ragged<float> & rows = by_rows ? evidence.sampled_rows : evidence.profile;
                const int n_rows = by_rows ? evidence.n_sampled : 1;
                std::vector<Head> heads(static_cast<size_t>(shape.n_heads()));
                for (int r = 0; r < rows.n_rows(); ++r) {
                    const auto positions = evidence.positions.row(r / n_rows / shape.n_group);
                    Row dense(static_cast<size_t>(n), 0.0);
                    for (size_t j = 0; j < positions.size(); ++j) dense[static_cast<size_t>(positions[j])] = rows.row(r)[j];
                    heads[static_cast<size_t>(r / n_rows)].push_back(dense);
                }
                const auto pairs = [&](const Head & a, const Head & b) {
                    double sum = 0;
                    for (const Row & x : a) {
                        for (const Row & y : b) sum += by_rows ? row_distance(x, y, distance) : 1 - dot(x, y);
                    }
                    return sum / static_cast<double>(a.size() * b.size());
                };
                LayerProfile found;
                ASSERT_TRUE(profiles.add(evidence, found).ok());
                SCOPED_TRACE("distance " + std::to_string(static_cast<int>(distance)) + ", seed " + std::to_string(seed));
                expect_near(found, by_pairs(heads, before, shape.n_group, pairs), tolerance_of(distance));
                before = heads;
            }
        }
    }
}

TEST(HeadProfiles, HeadsThatAreAllTheSameAreAMillionthApart) {
    LayerEvidence evidence;
    evidence.n_kv_heads = 2;
    evidence.n_group = 1;
    for (int h = 0; h < 2; ++h) {
        evidence.positions.push_row(std::vector<int32_t>{0, 1});
        evidence.profile.push_row(std::vector<float>{0, 1});
    }
    HeadProfiles profiles(HeadDistance::kCosine);
    LayerProfile found;
    ASSERT_TRUE(profiles.add(evidence, found).ok());
    EXPECT_EQ(found.within, 1e-6);
    EXPECT_EQ(found.to_previous, 1e-6);
    EXPECT_EQ(found.head_distance, (std::vector<double>{1e-6, 1e-6}));
}

TEST(HeadProfiles, RefuseEvidenceThatIsMissingOrNotFinite) {
    Rng rng(2);
    const CacheShape shape{1, 2, 2, 8};
    const LayerEvidence whole = make_equal(rng, shape, 20)[0];
    const auto status_of = [](HeadDistance distance, const LayerEvidence & evidence) {
        LayerProfile profile;
        return HeadProfiles(distance).add(evidence, profile);
    };
    LayerEvidence evidence = whole;
    evidence.profile = {};
    EXPECT_EQ(status_of(HeadDistance::kCosine, evidence).code(), ErrorCode::kMissingEvidence);
    EXPECT_TRUE(status_of(HeadDistance::kEuclidean, evidence).ok()) << "needs the rows only";
    evidence = whole;
    evidence.sampled_rows = {};
    EXPECT_EQ(status_of(HeadDistance::kJensenShannon, evidence).code(), ErrorCode::kMissingEvidence);
    evidence = whole;
    evidence.profile.row(3)[5] = std::numeric_limits<float>::quiet_NaN();
    const Status status = status_of(HeadDistance::kPearson, evidence);
    EXPECT_EQ(status.code(), ErrorCode::kNotFinite);
    EXPECT_NE(status.message().find("layer 0"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace pith::test::head_profiles_test
