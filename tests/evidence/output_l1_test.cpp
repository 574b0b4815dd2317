// output_l1_test.cpp - norms behind W_O by bytes on ragged lanes, and what `critical` chooses by them: the entries that plain
// f64 norms choose, but for near-ties, which are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attention/random_lanes.h"
#include "evidence/lane_tiles.h"
#include "evidence/output_norms.h"
#include "policy/policy.h"
#include "policy/select/selector.h"

namespace pith::output_l1_test {
namespace {

using testing::RandomLanes;
using testing::Vector;

// |v·W_O^g|₁ in f64, projection [D][H·dv].
double exact_norm(const RandomLanes & lanes, const std::vector<float> & projection, int head, int entry) {
    const Vector v = lanes.value(head / lanes.shape().n_group, entry);
    const auto width = static_cast<size_t>(lanes.row_size());
    double sum = 0;
    for (size_t row = 0; row < projection.size(); row += width) {
        const float * w = projection.data() + row + static_cast<size_t>(head) * v.size();
        double y = 0;
        for (size_t c = 0; c < v.size(); ++c) { y += static_cast<double>(w[c]) * v[c]; }
        sum += std::abs(y);
    }
    return sum;
}

Ragged<float> norms_by_bytes(RandomLanes & lanes, const std::vector<float> & projection) {
    const int dv = lanes.shape().head_dim;
    const auto made = ByteProjection::make(lanes.runner(), projection, lanes.shape().n_heads(), dv);
    Ragged<float> out;
    if (!made.ok()) {
        ADD_FAILURE() << made.status().message();
        return out;
    }
    EXPECT_TRUE(output_l1_norms(lanes.runner(), lanes.cache(), 0, 0, *made, best_byte_unit(), out).ok());
    return out;
}

struct Shape {
    ggml_type type;
    int n_kv_heads;
    int n_group;
    int head_dim;
    size_t n_embd;  // 40 and 75: rows of the matrix that are padded
    bool rotated = false;
};

TEST(OutputL1, ByBytesIsCloseToPlainCodeOnRaggedLanes) {
    if (best_byte_unit() == ByteUnit::kNone) { GTEST_SKIP() << "this processor multiplies no bytes"; }
    for (const Shape & shape :
         {Shape{GGML_TYPE_F16, 3, 1, 64, 75}, Shape{GGML_TYPE_F32, 2, 4, 80, 160}, Shape{GGML_TYPE_BF16, 1, 7, 128, 40},
          Shape{GGML_TYPE_Q8_0, 2, 4, 64, 128}, Shape{GGML_TYPE_Q4_0, 1, 7, 64, 96}, Shape{GGML_TYPE_Q8_0, 2, 4, 96, 128, true},
          Shape{GGML_TYPE_Q4_0, 1, 7, 64, 96, true}}) {
        RandomLanes lanes(shape.type, shape.n_kv_heads, shape.n_group, shape.head_dim, 300, 30, 0, 0, false, shape.rotated);
        const auto projection = lanes.random_values(shape.n_embd * static_cast<size_t>(lanes.row_size()));
        ASSERT_TRUE(has_byte_norms(lanes.runner(), lanes.cache(), 0));
        const Ragged<float> norms = norms_by_bytes(lanes, projection);
        for (int head = 0; head < lanes.shape().n_heads(); ++head) {
            ASSERT_EQ(norms.length(head), lanes.length(head / shape.n_group));
            for (int j = 0; j < norms.length(head); ++j) {
                const double expected = exact_norm(lanes, projection, head, j);
                ASSERT_NEAR(norms.row(head)[static_cast<size_t>(j)], expected,
                            0.06 / std::sqrt(static_cast<double>(shape.n_embd)) * expected)
                    << ggml_type_name(shape.type) << ", head " << head << ", entry " << j;
            }
        }
    }
}

TEST(OutputL1, OfTheNewestEntriesAloneIsTheSameBits) {
    RandomLanes lanes(GGML_TYPE_F16, 3, 2, 64, 700, 30);
    const auto projection = lanes.random_values(size_t{96} * static_cast<size_t>(lanes.row_size()));
    std::vector<int> begin = {0, 257, 0};
    begin[2] = lanes.length(2);  // nothing of this lane
    const auto check = [&](const auto & compute) {
        Ragged<float> all;
        ASSERT_TRUE(compute(all, std::span<const int>()).ok());
        Ragged<float> newest(lane_lengths(lanes.cache(), 0, 0, 2), -1.0F);
        ASSERT_TRUE(compute(newest, std::span<const int>(begin)).ok());
        for (int head = 0; head < 6; ++head) {
            for (int j = 0; j < all.length(head); ++j) {
                const auto i = static_cast<size_t>(j);
                EXPECT_EQ(newest.row(head)[i], j < begin[static_cast<size_t>(head / 2)] ? -1.0F : all.row(head)[i]);
            }
        }
    };
    check([&](Ragged<float> & out, std::span<const int> from) {
        return output_l1_norms(lanes.runner(), lanes.cache(), 0, 0, projection, out, from);
    });
    const auto bytes = ByteProjection::make(lanes.runner(), projection, 6, 64);
    ASSERT_TRUE(bytes.ok());
    for (const ByteUnit unit : byte_units()) {
        check([&](Ragged<float> & out, std::span<const int> from) {
            return output_l1_norms(lanes.runner(), lanes.cache(), 0, 0, *bytes, unit, out, from);
        });
    }
    lanes.runner().set_custom_operations(false);
    Ragged<float> newest(lane_lengths(lanes.cache(), 0, 0, 2), -1.0F);
    ASSERT_TRUE(output_l1_norms(lanes.runner(), lanes.cache(), 0, 0, projection, newest, begin).ok());
    EXPECT_EQ(newest.row(2)[256], -1.0F);
    EXPECT_NEAR(newest.row(2)[257], exact_norm(lanes, projection, 2, 257), 1e-3 * newest.row(2)[257]);
}

// Entries that one choice holds and the other does not must be worth the same to a few parts in a thousand.
TEST(OutputL1, CriticalChoosesByBytesWhatItChoosesByExactNormsButForNearTies) {
    if (best_byte_unit() == ByteUnit::kNone) { GTEST_SKIP() << "this processor multiplies no bytes"; }
    constexpr int kLanes = 6;
    constexpr int kGroup = 4;
    constexpr double kTie = 3e-3;
    RandomLanes lanes(GGML_TYPE_F16, kLanes, kGroup, 64, 2000, 100);
    const auto projection = lanes.random_values(size_t{192} * static_cast<size_t>(lanes.row_size()));
    LayerEvidence by_bytes;
    by_bytes.n_kv_heads = kLanes;
    by_bytes.n_group = kGroup;
    for (int h = 0; h < kLanes; ++h) { by_bytes.positions.push_row(lanes.cache().positions(h)); }
    LayerEvidence exact = by_bytes;
    by_bytes.output_l1 = norms_by_bytes(lanes, projection);
    exact.output_l1 = by_bytes.output_l1;
    for (int head = 0; head < kLanes * kGroup; ++head) {
        for (int j = 0; j < exact.output_l1.length(head); ++j) {
            exact.output_l1.row(head)[static_cast<size_t>(j)] = static_cast<float>(exact_norm(lanes, projection, head, j));
        }
    }
    Ragged<float> scores(lane_lengths(lanes.cache(), 0, 0, 1));
    std::exponential_distribution<float> exponential(1.0F);
    for (float & score : scores.flat()) { score = std::pow(exponential(lanes.random()), 2.0F) / 100; }
    Ragged<IndexRange> ranges;
    for (int h = 0; h < kLanes; ++h) { ranges.push_row(std::vector<IndexRange>{{0, 4}}); }

    const auto choose = [&](const LayerEvidence & evidence, const std::vector<int> & shares) {
        const LayerView view{.positions = evidence.positions,
                             .scores = scores,
                             .protected_ranges = ranges,
                             .evidence = &evidence,
                             .base_scores = &scores};
        LayerChoice choice;
        const Status status = Policy::parse("criticalkv").value().selector().select(view, shares, run_in_turn, choice);
        EXPECT_TRUE(status.ok()) << status.message();
        return choice.keep;
    };
    int n_kept = 0;
    int n_ties = 0;
    for (const int share : {50, 200, 500, 900}) {
        const std::vector<int> shares(kLanes, share);
        const Ragged<int32_t> fast = choose(by_bytes, shares);
        const Ragged<int32_t> slow = choose(exact, shares);
        for (int h = 0; h < kLanes; ++h) {
            const auto value = [&](int32_t j) {
                double norm = 0;
                for (int g = 0; g < kGroup; ++g) {
                    norm += static_cast<double>(exact.output_l1.row(h * kGroup + g)[static_cast<size_t>(j)]);
                }
                return (static_cast<double>(scores.row(h)[static_cast<size_t>(j)]) + 1e-4) * norm;
            };
            std::vector<int32_t> gained;
            std::vector<int32_t> lost;
            std::ranges::set_difference(fast.row(h), slow.row(h), std::back_inserter(gained));
            std::ranges::set_difference(slow.row(h), fast.row(h), std::back_inserter(lost));
            ASSERT_EQ(gained.size(), lost.size());
            for (const int32_t in : gained) {
                for (const int32_t out : lost) { EXPECT_NEAR(value(in) / value(out), 1, kTie) << "lane " << h; }
            }
            n_kept += share;
            n_ties += static_cast<int>(lost.size());
        }
    }
    RecordProperty("near_ties", n_ties);
    EXPECT_LE(n_ties, n_kept / 500) << "of " << n_kept;
}

}  // namespace
}  // namespace pith::output_l1_test
