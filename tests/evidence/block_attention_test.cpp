// block_attention_test.cpp - what the tokens of a block pay each other, against plain f64 code: ragged lanes, every K type,
// however the tokens come, through compaction.
#include "evidence/block_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention/random_lanes.h"
#include "evidence/evidence_state.h"

namespace pith::block_attention_test {
namespace {

using testing::LaneCase;
using testing::RandomLanes;
using testing::Vector;

constexpr EvidenceNeeds kNeeds{.block_attention = true};

class BlockAttention : public ::testing::TestWithParam<LaneCase> {
protected:
    // The first block and a part of the second have lost entries; the third is not full.
    static constexpr int kFirst = 300;
    static constexpr int kLast = 270;

    // In pieces of `step`; of one token as decoding tells of it.
    EvidenceState state_after(int step) {
        EvidenceState state(lanes_.shape(), kNeeds);
        for (int first = 0; first < lanes_.n_seen(); first += step) {
            const int n = std::min(step, lanes_.n_seen() - first);
            if (n == 1) {
                EXPECT_TRUE(state.close_blocks(lanes_.runner(), lanes_.cache(), 0).ok());
                state.add_to_block(0, lanes_.queries(first), first);
            } else {
                EXPECT_TRUE(state.add_blocks(lanes_.runner(), lanes_.cache(), 0, 0, lanes_.queries(first), n, first).ok());
            }
        }
        return state;
    }
    Ragged<float> gather(const EvidenceState & state) {
        const auto evidence = state.gather(lanes_.runner(), lanes_.cache(), 0, 0, lanes_.n_seen(), kNeeds);
        EXPECT_TRUE(evidence.ok()) << evidence.status().message();
        return evidence.ok() ? evidence->block_attention : Ragged<float>();
    }

    // Of one query head: block after block, first tokens outside.
    Vector plain_sums(int head) {
        const int h = head / lanes_.shape().n_group;
        const auto positions = lanes_.cache().positions(h);
        const auto d = static_cast<size_t>(lanes_.shape().head_dim);
        const auto in_block = [](int position, int block) {
            return position >= kFirstTokens && position / kBlockTokens == block;
        };
        Vector sums(positions.size(), 0.0);
        for (size_t j = 0; j < positions.size(); ++j) { sums[j] = positions[j] < kFirstTokens ? 1.0 : 0.0; }
        for (int i = kFirstTokens; i < lanes_.n_seen(); ++i) {
            const float * q = lanes_.queries(i) + static_cast<size_t>(head) * d;
            Vector weights(positions.size(), 0.0);
            double sum = 0;
            for (size_t j = 0; j < positions.size(); ++j) {
                if (!in_block(positions[j], i / kBlockTokens)) { continue; }
                const Vector k = lanes_.key(h, static_cast<int>(j));
                double dot = 0;
                for (size_t c = 0; c < d; ++c) { dot += k[c] * static_cast<double>(q[c]); }
                sum += weights[j] = std::exp(dot);
            }
            for (size_t j = 0; j < sums.size(); ++j) { sums[j] += sum > 0 ? weights[j] / sum : 0.0; }
        }
        return sums;
    }

    RandomLanes lanes_{GetParam().type, GetParam().n_kv_heads, GetParam().n_group, GetParam().head_dim, kFirst, kLast};
};

TEST_P(BlockAttention, EqualsPlainCodeHoweverTheTokensCame) {
    const Ragged<float> sums = gather(state_after(lanes_.n_seen()));
    for (int head = 0; head < lanes_.shape().n_heads(); ++head) {
        const Vector expected = plain_sums(head);
        ASSERT_EQ(sums.row(head).size(), expected.size());
        for (size_t j = 0; j < expected.size(); ++j) {
            ASSERT_NEAR(sums.row(head)[j], expected[j], 1e-4 * std::max(1.0, expected[j])) << "head " << head << " entry " << j;
        }
    }
    for (const int step : {1, 100, 256}) { EXPECT_EQ(gather(state_after(step)), sums) << step; }
}

// Blocks that are full keep what they were told; of the one that is not, what is left is asked.
TEST_P(BlockAttention, GoesWithTheEntriesThatStay) {
    EvidenceState state = state_after(100);
    const Ragged<float> before = gather(state);
    const EvidenceState copy = state;
    const Ragged<int32_t> keep = lanes_.evict_at_random();
    state.prepare_compact(0, keep);
    state.compact(0, keep);
    const Ragged<float> after = gather(state);
    for (int head = 0; head < lanes_.shape().n_heads(); ++head) {
        const int h = head / lanes_.shape().n_group;
        const Vector plain = plain_sums(head);
        const auto positions = lanes_.cache().positions(h);
        for (size_t j = 0; j < positions.size(); ++j) {
            if (positions[j] < 2 * kBlockTokens) {
                ASSERT_EQ(after.row(head)[j], before.row(head)[static_cast<size_t>(keep.row(h)[j])]);
            } else {
                ASSERT_NEAR(after.row(head)[j], plain[j], 1e-4 * std::max(1.0, plain[j]));
            }
        }
    }
    // Lanes of which it was not told.
    const auto unknown =
        copy.gather(lanes_.runner(), lanes_.cache(), 0, 0, lanes_.n_seen(), {.window = 4, .window_mean = true});
    EXPECT_EQ(unknown.status().code(), ErrorCode::kMissingEvidence);
}

TEST_P(BlockAttention, AnEmptyLaneAndFirstTokensAloneAreNoError) {
    Ragged<int32_t> keep;
    for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
        keep.push_row(h == 0 ? std::vector<int32_t>{} : std::vector<int32_t>{0, 1});
    }
    EvidenceState state = state_after(100);
    lanes_.cache().compact(0, 0, keep);
    state.compact(0, keep);
    const Ragged<float> sums = gather(state);
    EXPECT_EQ(sums.length(0), 0);
    for (int head = lanes_.shape().n_group; head < sums.n_rows(); ++head) { EXPECT_EQ(sums.length(head), 2); }
}

TEST_P(BlockAttention, EntriesOfWhichNothingIsKnownAreAnError) {
    const EvidenceState state(lanes_.shape(), kNeeds);
    const auto evidence = state.gather(lanes_.runner(), lanes_.cache(), 0, 0, lanes_.n_seen(), kNeeds);
    EXPECT_EQ(evidence.status().code(), ErrorCode::kMissingEvidence);
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, BlockAttention, testing::lane_cases());

}  // namespace
}  // namespace pith::block_attention_test
