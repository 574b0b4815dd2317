// joint_lane.h - one lane with its values and scores, CAOTE's joint error by definition, and what a policy keeps of the lane.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "policy/evidence_maker.h"
#include "policy/policy.h"
#include "policy/refine/refiner.h"
#include "policy/select/selector.h"

namespace pith::test {

struct Lane {
    size_t n, d;
    std::vector<float> values;               // [n][d]
    std::vector<std::vector<float>> scores;  // [G][n]
    int n_protected = 0;                     // the newest
};

// (24) by its definition: how far the outputs of all query heads move when these entries go and the rest is renormalised.
inline double joint_error(const Lane & lane, const std::vector<bool> & is_kept) {
    double sum = 0;
    for (const std::vector<float> & a : lane.scores) {
        double all = 0;
        double left = 0;
        for (size_t j = 0; j < lane.n; ++j) {
            all += a[j];
            left += is_kept[j] ? a[j] : 0;
        }
        for (size_t c = 0; c < lane.d; ++c) {
            double with_all = 0;
            double with_left = 0;
            for (size_t j = 0; j < lane.n; ++j) {
                const double part = double{a[j]} * lane.values[j * lane.d + c];
                with_all += part / all;
                with_left += is_kept[j] ? part / left : 0;
            }
            sum += (with_all - with_left) * (with_all - with_left);
        }
    }
    return std::sqrt(sum);
}

// What the policy's refiner and selector choose of the lane when m entries must go.
inline LayerChoice choice_of(const char * text, const Lane & lane, int m) {
    const Policy policy = Policy::parse(text).value();
    LayerEvidence evidence;
    evidence.n_kv_heads = 1;
    evidence.n_group = static_cast<int>(lane.scores.size());
    evidence.n_seen = static_cast<int64_t>(lane.n);
    std::vector<int32_t> positions;
    for (size_t j = 0; j < lane.n; ++j) positions.push_back(static_cast<int32_t>(j));
    evidence.positions.push_row(positions);
    evidence.values = std::make_shared<HostValues>(std::vector<std::vector<float>>{lane.values}, static_cast<int>(lane.d));
    Ragged<float> heads;
    std::vector<float> mean(lane.n, 0.0F);
    for (const std::vector<float> & row : lane.scores) {
        heads.push_row(row);
        for (size_t j = 0; j < lane.n; ++j) mean[j] += row[j] / static_cast<float>(lane.scores.size());
    }
    Ragged<float> base;
    base.push_row(mean);
    Ragged<float> scores = base;
    if (policy.refiner() != nullptr) { EXPECT_TRUE(policy.refiner()->refine(evidence, &heads, {}, scores).ok()); }
    Ragged<IndexRange> ranges;
    const auto n = static_cast<int>(lane.n);
    ranges.push_row(std::vector<IndexRange>(lane.n_protected > 0 ? 1 : 0, IndexRange{n - lane.n_protected, n}));
    const LayerView view{.positions = evidence.positions,
                         .scores = scores,
                         .protected_ranges = ranges,
                         .evidence = &evidence,
                         .base_scores = &base,
                         .head_scores = &heads};
    LayerChoice choice;
    EXPECT_TRUE(policy.selector().select(view, std::vector<int>{n - lane.n_protected - m}, run_in_turn, choice).ok());
    return choice;
}

inline std::vector<bool> kept_by(const char * text, const Lane & lane, int m) {
    const LayerChoice choice = choice_of(text, lane, m);
    std::vector<bool> is_kept(lane.n, false);
    for (const int32_t j : choice.keep.row(0)) is_kept[static_cast<size_t>(j)] = true;
    EXPECT_EQ(std::count(is_kept.begin(), is_kept.end(), true), static_cast<int>(lane.n) - m);
    return is_kept;
}

}  // namespace pith::test
