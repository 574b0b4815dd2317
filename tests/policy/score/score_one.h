// score_one.h - scores one lane of hand-made evidence.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "policy/policy.h"
#include "policy/score/scorer.h"

namespace pith::test {

using Row = std::vector<float>;

// Evidence of one layer: `lanes` lanes of n entries at positions 0 … n-1, n_group query heads each, nothing else filled.
inline LayerEvidence bare_evidence(int n_kv_heads, int n_group, int n) {
    LayerEvidence evidence;
    evidence.n_kv_heads = n_kv_heads;
    evidence.n_group = n_group;
    evidence.n_seen = n;
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), 0);
    for (int h = 0; h < n_kv_heads; ++h) evidence.positions.push_row(positions);
    return evidence;
}

inline std::vector<Row> rows_of(const Ragged<float> & ragged) {
    std::vector<Row> rows;
    for (int r = 0; r < ragged.n_rows(); ++r) rows.emplace_back(ragged.row(r).begin(), ragged.row(r).end());
    return rows;
}

inline std::vector<Row> scores_of(const char * policy, const LayerEvidence & evidence) {
    Ragged<float> scores;
    const Policy parsed = Policy::parse(policy).value();
    const Status status = parsed.scorer().score(evidence, scores);
    EXPECT_TRUE(status.ok()) << status.message();
    return rows_of(scores);
}

inline std::vector<Row> head_scores_of(const char * policy, const LayerEvidence & evidence) {
    Ragged<float> scores;
    const Policy parsed = Policy::parse(policy).value();
    const Status status = parsed.scorer().score_heads(evidence, scores);
    EXPECT_TRUE(status.ok()) << status.message();
    return rows_of(scores);
}

}  // namespace pith::test
