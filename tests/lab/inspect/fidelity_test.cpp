// fidelity_test.cpp - the numbers of an inspection on cases small enough to check by hand, and against slow formulas.
#include "inspect/fidelity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace pith::fidelity_test {
namespace {

using Floats = std::vector<float>;

TEST(Fidelity, DistancesAndCosinesOfSmallVectors) {
    EXPECT_EQ(l1_distance(Floats{1, -2, 3}, Floats{0, 2, 3}), 5);
    EXPECT_EQ(l1_norm(Floats{1, -2, 3}), 6);
    EXPECT_NEAR(cosine_similarity(Floats{1, 0}, Floats{1, 1}), std::sqrt(0.5), 1e-12);
    EXPECT_EQ(cosine_similarity(Floats{2, 4}, Floats{-1, -2}), -1);
    EXPECT_EQ(cosine_similarity(Floats{0, 0}, Floats{0, 0}), 1);
    EXPECT_EQ(cosine_similarity(Floats{0, 0}, Floats{0, 1}), 0);
    EXPECT_EQ(relative_error(Floats{3, 4}, Floats{3, 4}), 0);
    EXPECT_EQ(relative_error(Floats{0, 0}, Floats{0, 0}), 0);
    EXPECT_NEAR(relative_error(Floats{3, 4}, Floats{0, 4}), 3.0 / 5, 1e-12);
}

TEST(Fidelity, SpearmanComparesOrdersOnly) {
    EXPECT_NEAR(spearman(Floats{1, 2, 3, 4}, Floats{10, 200, 3000, 40000}), 1, 1e-12);
    EXPECT_NEAR(spearman(Floats{1, 2, 3, 4}, Floats{4, 3, 2, 1}), -1, 1e-12);
    EXPECT_NEAR(spearman(Floats{1, 2, 3}, Floats{1, 3, 2}), 0.5, 1e-12);  // 1 - 6·2/(3·8)
    // Ties share ranks: 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    EXPECT_NEAR(spearman(Floats{1, 5, 5, 9}, Floats{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5.0), 1e-12);
    EXPECT_EQ(spearman(Floats{7, 7, 7}, Floats{1, 2, 3}), 0);
    EXPECT_EQ(spearman(Floats{7, 7, 7}, Floats{2, 2, 2}), 1);
    EXPECT_EQ(spearman(Floats{7}, Floats{2}), 1);
    EXPECT_EQ(spearman(Floats{}, Floats{}), 1);
}

TEST(Fidelity, SpearmanEqualsPearsonOfSlowlyCountedRanks) {
    std::mt19937 random(3);
    Floats a(200);
    Floats b(200);
    for (size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<float>(random() % 50);
        b[i] = a[i] + static_cast<float>(random() % 60);
    }
    const auto rank = [](const Floats & of, size_t i) {  // 1 + those below + half of the others that are equal
        double r = 1;
        for (size_t j = 0; j < of.size(); ++j) { r += of[j] < of[i] ? 1 : of[j] == of[i] && j != i ? 0.5 : 0; }
        return r;
    };
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double x = rank(a, i) - 100.5;
        const double y = rank(b, i) - 100.5;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    EXPECT_NEAR(spearman(a, b), ab / std::sqrt(aa * bb), 1e-12);
    EXPECT_NEAR(spearman(a, a), 1, 1e-12);
}

TEST(Fidelity, OverlapCountsWhatBothAndEitherHold) {
    SetCounts counts;
    count_overlap(std::vector<int32_t>{1, 3, 5, 9}, std::vector<int32_t>{3, 4, 9, 10}, counts);
    EXPECT_EQ(counts.n_both, 2);
    EXPECT_EQ(counts.n_either, 6);
    count_overlap(std::vector<int32_t>{}, std::vector<int32_t>{2}, counts);
    EXPECT_EQ(counts.n_either, 7);
    EXPECT_NEAR(counts.jaccard(), 2.0 / 7, 1e-12);
    EXPECT_EQ(SetCounts{}.jaccard(), 1);
}

TEST(Fidelity, MassIsTheAttentionOfKeptPositions) {
    const Floats attention = {0.5F, 0.25F, 0.125F, 0.125F};
    const std::vector<int32_t> positions = {2, 5, 6, 9};
    EXPECT_EQ(kept_mass(attention, positions, std::vector<int32_t>{2, 6}), 0.625);
    EXPECT_EQ(kept_mass(attention, positions, std::vector<int32_t>{3, 9, 12}), 0.125);
    EXPECT_EQ(kept_mass(attention, positions, positions), 1);
    EXPECT_EQ(kept_mass(attention, positions, std::vector<int32_t>{}), 0);
}

TEST(Fidelity, TheFirstStageIsWhatIsProtectedAndTheBetterPartOfTheRest) {
    const Floats scores = {9, 1, 7, 3, 5, 2, 0, 0};
    const std::vector<IndexRange> ranges = {{0, 1}, {6, 8}};
    // 3 candidates kept in all: ⌊0.5·3⌋ = 1 of them in the first stage.
    EXPECT_EQ(first_stage(scores, ranges, 3, 0.5), (std::vector<int32_t>{0, 2, 6, 7}));
    EXPECT_EQ(first_stage(scores, ranges, 4, 0.5), (std::vector<int32_t>{0, 2, 4, 6, 7}));
    EXPECT_EQ(first_stage(scores, ranges, 1, 0.5), (std::vector<int32_t>{0, 6, 7}));
    EXPECT_EQ(first_stage(scores, ranges, 0, 0.5), (std::vector<int32_t>{0, 6, 7}));
}

}  // namespace
}  // namespace pith::fidelity_test
