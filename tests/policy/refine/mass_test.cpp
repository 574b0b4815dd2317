// mass_test.cpp - what nearly all attention goes to, and the rest by score and value.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "policy/formulas.h"
#include "policy/refine/refiner.h"
#include "policy/score/score_one.h"

namespace pith::test::mass_test {
namespace {

double group_mean(const Ragged<float> & rows, const LayerEvidence & e, size_t h, size_t j) {
    double sum = 0;
    for (int g = 0; g < e.n_group; ++g) sum += double{rows.row(static_cast<int>(h) * e.n_group + g)[j]} / e.n_group;
    return sum;
}

Lanes mass(const PartVariant & refiner, const LayerEvidence & e, const Lanes & base, const Lanes & /*heads*/,
           const std::vector<int64_t> & net_budgets) {
    std::vector<size_t> n_past(base.size(), 0);
    std::map<int32_t, double> at_position;
    std::vector<double> of_lane(base.size(), 0.0);
    float least = 0;
    double paid = 0;  // bias, over all lanes
    for (size_t h = 0; h < base.size(); ++h) {
        const auto positions = e.positions.row(static_cast<int>(h));
        while (n_past[h] < positions.size() && positions[n_past[h]] < e.n_seen - e.n_window) ++n_past[h];
        for (size_t j = 0; j < base[h].size(); ++j) {
            const double norm = group_mean(e.output_l1, e, h, j);
            at_position[positions[j]] += norm;
            of_lane[h] += norm;
            least = std::min(least, base[h][j]);
            const bool in_window = j >= n_past[h];
            const bool just_before = !in_window && j + static_cast<size_t>(e.n_window) >= n_past[h];
            if (refiner.is("bias", "window") ? in_window : just_before) paid += group_mean(e.window_mean, e, h, j);
        }
    }
    Lanes out;
    float largest = 0;
    for (size_t h = 0; h < base.size(); ++h) {
        out.emplace_back();
        for (size_t j = 0; j < base[h].size(); ++j) {
            double divisor = 1;
            if (refiner.is("norm", "heads")) divisor = at_position.at(e.positions.row(static_cast<int>(h))[j]);
            if (refiner.is("norm", "lane")) divisor = of_lane[h];
            const double norm = group_mean(e.output_l1, e, h, j);
            out[h].push_back(static_cast<float>((double{base[h][j]} - least) * (divisor > 0 ? norm / divisor : norm)));
            if (j < n_past[h]) largest = std::max(largest, out[h][j]);
        }
    }
    const double below = refiner.number("share") - (base.empty() ? 0 : paid / static_cast<double>(base.size()));
    for (size_t h = 0; h < base.size(); ++h) {
        std::vector<std::pair<double, size_t>> order;
        double all = 0;
        for (size_t j = 0; j < n_past[h]; ++j) {
            order.emplace_back(group_mean(e.window_mean, e, h, j), j);
            all += order.back().first;
        }
        std::sort(order.rbegin(), order.rend());
        double sum = 0;
        for (size_t i = 0; i < order.size() && all > 0 && static_cast<int64_t>(i) < net_budgets[h]; ++i) {
            sum += order[i].first / all;
            if (sum >= below) break;
            out[h][order[i].second] = largest;
        }
    }
    return out;
}
const Known<RefinerFormula> kMass({"mass", mass});

// Two lanes of six entries, the last two of which are the window's; one query head each.
LayerEvidence two_lanes() {
    LayerEvidence evidence = bare_evidence(2, 1, 6);
    evidence.n_window = 2;
    evidence.window_mean.push_row(Row{.5F, .2F, .1F, 0, .1F, .1F});
    evidence.window_mean.push_row(Row{.1F, .1F, .1F, .1F, .3F, .3F});
    evidence.output_l1.push_row(Row{1, 1, 1, 1, 1, 1});
    evidence.output_l1.push_row(Row{3, 1, 3, 1, 1, 1});
    return evidence;
}

std::vector<std::vector<float>> refined(const char * policy, const LayerEvidence & evidence, std::vector<int64_t> net_budgets) {
    const Policy parsed = Policy::parse(policy).value();
    Ragged<float> scores;
    for (int h = 0; h < 2; ++h) { scores.push_row(Row{.4F, .8F, .4F, .8F, 1, 1}); }
    const Status status = parsed.refiner()->refine(evidence, nullptr, net_budgets, scores);
    EXPECT_TRUE(status.ok()) << status.message();
    return {{scores.row(0).begin(), scores.row(0).end()}, {scores.row(1).begin(), scores.row(1).end()}};
}

TEST(Mass, MultipliesScoresWithTheValuesShareOfTheLayersHeads) {
    const auto scores = refined("snapkv+mass:share=0", two_lanes(), {4, 4});
    const Row first = {.1F, .4F, .1F, .4F};
    const Row second = {.3F, .4F, .3F, .4F};
    for (size_t j = 0; j < 4; ++j) {
        EXPECT_FLOAT_EQ(scores[0][j], first[j]) << j;
        EXPECT_FLOAT_EQ(scores[1][j], second[j]) << j;
    }
}

// The bias is the mean of .1 and .2, what is paid to the two entries before the window: .9 - .15 of what is paid before it.
TEST(Mass, GivesTheLargestScoreToWhatNearlyAllAttentionGoesTo) {
    const auto scores = refined("snapkv+mass", two_lanes(), {4, 4});
    EXPECT_FLOAT_EQ(scores[0][0], .4F) << "5/8 are less than .75";
    EXPECT_FLOAT_EQ(scores[0][1], .4F) << "7/8 are not, and this one's own score is the largest anyway";
    EXPECT_FLOAT_EQ(scores[0][2], .1F);
    EXPECT_FLOAT_EQ(scores[1][0], .3F) << "of four alike the newer two are in before three quarters are full";
    EXPECT_FLOAT_EQ(scores[1][2], .4F);
}

TEST(Mass, GivesItToNoMoreEntriesThanALaneKeeps) {
    const auto scores = refined("snapkv+mass", two_lanes(), {0, 1});
    EXPECT_FLOAT_EQ(scores[0][0], .1F);
    EXPECT_FLOAT_EQ(scores[1][2], .3F) << "only the newest of the four";
}

}  // namespace
}  // namespace pith::test::mass_test
