// evidence_values_test.cpp - what is computed from keys and values alone, against plain f64 code, in every K/V type.
#include <gtest/gtest.h>

#include "attention/random_lanes.h"
#include "evidence/entry_norms.h"
#include "evidence/group_outputs.h"
#include "evidence/lane_tiles.h"
#include "evidence/lane_values.h"
#include "evidence/output_norms.h"
#include "model/output_factors.h"
#include "policy/evidence/evidence.h"

namespace pith::evidence_values_test {
namespace {

using testing::dot;
using testing::LaneCase;
using testing::norm;
using testing::RandomLanes;
using testing::Vector;

class EvidenceValues : public ::testing::TestWithParam<LaneCase> {
protected:
    // Pith's kernels on the CPU, then ggml's operations, which every back end has.
    template <class Check>
    void on_both_paths(Check check) {
        for (const bool kernels : {true, false}) {
            lanes_.runner().set_custom_operations(kernels);
            SCOPED_TRACE(kernels ? "kernels" : "portable");
            check();
        }
    }

    // Long enough for several tiles of the widest computation.
    RandomLanes lanes_{GetParam().type,       GetParam().n_kv_heads, GetParam().n_group,   GetParam().head_dim, 700, 60,
                       /*attention_scale=*/0, /*softcap=*/0,         /*with_sinks=*/false, GetParam().rotated};

    // W_O [D][H·dv] and what a value becomes behind the slice of one query head, f64.
    static constexpr int kEmbd = 48;  // less than d·H: the slices have less than full rank where d > 48
    std::vector<float> projection() {
        return lanes_.random_values(static_cast<size_t>(kEmbd) * static_cast<size_t>(lanes_.row_size()));
    }
    Vector projected(const std::vector<float> & wo, int head, const Vector & v) const {
        Vector out(kEmbd, 0.0);
        for (size_t r = 0; r < out.size(); ++r) {
            const size_t row = r * static_cast<size_t>(lanes_.row_size()) + static_cast<size_t>(head) * v.size();
            for (size_t c = 0; c < v.size(); ++c) { out[r] += static_cast<double>(wo[row + c]) * v[c]; }
        }
        return out;
    }
};

double sum_of_magnitudes(const Vector & x) {
    double sum = 0;
    for (const double one : x) { sum += std::abs(one); }
    return sum;
}

TEST_P(EvidenceValues, NormsOfValuesEqualPlainCode) {
    on_both_paths([&] {
        Ragged<float> l1;
        Ragged<float> l2;
        ASSERT_TRUE(value_norms(lanes_.runner(), lanes_.cache(), 0, 0, EntryNorm::kL1, l1).ok());
        ASSERT_TRUE(value_norms(lanes_.runner(), lanes_.cache(), 0, 0, EntryNorm::kL2, l2).ok());
        for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
            ASSERT_EQ(l1.length(h), lanes_.length(h));
            for (int j = 0; j < lanes_.length(h); ++j) {
                const auto i = static_cast<size_t>(j);
                const Vector v = lanes_.value(h, j);
                EXPECT_NEAR(l1.row(h)[i], sum_of_magnitudes(v), 1e-5 * sum_of_magnitudes(v));
                EXPECT_NEAR(l2.row(h)[i], norm(v), 1e-5 * norm(v));
            }
        }
    });
}

TEST_P(EvidenceValues, CosinesToTheMeanUnitKeyEqualPlainCode) {
    on_both_paths([&] {
        Ragged<float> cosines;
        ASSERT_TRUE(key_cosines(lanes_.runner(), lanes_.cache(), 0, 0, cosines).ok());
        for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
            Vector mean(static_cast<size_t>(lanes_.shape().head_dim), 0.0);
            for (int j = 0; j < lanes_.length(h); ++j) {
                const Vector k = lanes_.key(h, j);
                for (size_t c = 0; c < k.size(); ++c) { mean[c] += k[c] / norm(k) / lanes_.length(h); }
            }
            for (int j = 0; j < lanes_.length(h); ++j) {
                const Vector k = lanes_.key(h, j);
                EXPECT_NEAR(cosines.row(h)[static_cast<size_t>(j)], dot(k, mean) / (norm(k) * norm(mean)), 1e-5);
            }
        }
    });
}

TEST_P(EvidenceValues, DistancesToAWeightedMeanEqualPlainCodePerQueryHeadAndPerKvHead) {
    const LaneValues values(lanes_.runner(), lanes_.cache(), 0, 0);
    for (const int n_rows : {lanes_.shape().n_group, 1}) {
        Ragged<float> weights(lane_lengths(lanes_.cache(), 0, 0, n_rows));
        std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
        for (int r = 0; r < weights.n_rows(); ++r) {
            float sum = 0;
            for (float & w : weights.row(r)) { sum += w = std::pow(uniform(lanes_.random()), 8.0F); }
            for (float & w : weights.row(r)) { w /= sum; }
        }
        Ragged<float> out;
        ASSERT_TRUE(values.distances_to_mean(weights, out).ok());
        ASSERT_EQ(out.n_rows(), weights.n_rows());
        for (int r = 0; r < weights.n_rows(); ++r) {
            const int h = r / n_rows;
            Vector mean(static_cast<size_t>(lanes_.shape().head_dim), 0.0);
            for (int j = 0; j < lanes_.length(h); ++j) {
                const Vector v = lanes_.value(h, j);
                const double w = weights.row(r)[static_cast<size_t>(j)];
                for (size_t c = 0; c < v.size(); ++c) { mean[c] += w * v[c]; }
            }
            for (int j = 0; j < lanes_.length(h); ++j) {
                Vector difference = lanes_.value(h, j);
                for (size_t c = 0; c < mean.size(); ++c) { difference[c] -= mean[c]; }
                EXPECT_NEAR(out.row(r)[static_cast<size_t>(j)], norm(difference), 1e-5 * norm(difference));
            }
        }
    }
}

// All weight on one entry: its distance is 0 to rounding of the values, not to that of their squared norms.
TEST_P(EvidenceValues, TheDistanceOfTheMeanItselfDoesNotSufferFromCancellation) {
    const LaneValues values(lanes_.runner(), lanes_.cache(), 0, 0);
    Ragged<float> weights(lane_lengths(lanes_.cache(), 0, 0, 1));
    for (int h = 0; h < weights.n_rows(); ++h) { weights.row(h)[3] = 1.0F; }
    Ragged<float> out;
    ASSERT_TRUE(values.distances_to_mean(weights, out).ok());
    for (int h = 0; h < weights.n_rows(); ++h) { EXPECT_LE(out.row(h)[3], 1e-6 * norm(lanes_.value(h, 3))); }
}

TEST_P(EvidenceValues, ValuesComeOutAsTheCacheHoldsThem) {
    const LaneValues values(lanes_.runner(), lanes_.cache(), 0, 0);
    ASSERT_EQ(values.head_dim_v(), lanes_.shape().head_dim);
    const auto d = static_cast<size_t>(lanes_.shape().head_dim);
    for (int h = 0; h < lanes_.shape().n_kv_heads; ++h) {
        std::vector<float> out;
        ASSERT_TRUE(values.lane_values(h, out).ok());
        ASSERT_EQ(out.size(), static_cast<size_t>(lanes_.length(h)) * d);
        for (int j = 0; j < lanes_.length(h); ++j) {
            const Vector v = lanes_.value(h, j);
            for (size_t c = 0; c < d; ++c) {  // rows are rotated back in f32
                ASSERT_NEAR(out[static_cast<size_t>(j) * d + c], v[c], GetParam().rotated ? 1e-5 * norm(v) : 0.0);
            }
        }
    }
}

TEST_P(EvidenceValues, KeysAndValuesOfAllLanesComeOutSideBySide) {
    const auto d = static_cast<size_t>(lanes_.shape().head_dim);
    for (const bool keys : {true, false}) {
        Ragged<float> rows;
        ggml_tensor * flat = keys ? lanes_.cache().k(0) : lanes_.cache().v(0);
        ASSERT_TRUE(rows_of_lanes(lanes_.runner(), lanes_.cache(), flat, 0, 0, rows).ok());
        ASSERT_EQ(rows.n_rows(), lanes_.shape().n_kv_heads);
        for (int h = 0; h < rows.n_rows(); ++h) {
            ASSERT_EQ(rows.row(h).size(), static_cast<size_t>(lanes_.length(h)) * d);
            for (int j = 0; j < lanes_.length(h); ++j) {
                const Vector made = keys ? lanes_.key(h, j) : lanes_.value(h, j);
                for (size_t c = 0; c < d; ++c) {
                    ASSERT_NEAR(rows.row(h)[static_cast<size_t>(j) * d + c], made[c],
                                GetParam().rotated ? 1e-5 * norm(made) : 0.0);
                }
            }
        }
    }
}

TEST_P(EvidenceValues, CompactedLanesAreRefused) {
    const LaneValues values(lanes_.runner(), lanes_.cache(), 0, 0);
    lanes_.evict_at_random();
    std::vector<float> out;
    EXPECT_EQ(values.lane_values(0, out).code(), ErrorCode::kInternal);
}

TEST_P(EvidenceValues, OutputNormsEqualPlainCodeAlsoWhereTheProjectionLacksRank) {
    on_both_paths([&] {
        const std::vector<float> wo = projection();
        const auto factor =
            *factor_slices(wo, static_cast<size_t>(lanes_.shape().n_heads()), static_cast<size_t>(lanes_.shape().head_dim));
        Ragged<float> l1;
        Ragged<float> l2;
        ASSERT_TRUE(output_l1_norms(lanes_.runner(), lanes_.cache(), 0, 0, wo, l1).ok());
        ASSERT_TRUE(output_l2_norms(lanes_.runner(), lanes_.cache(), 0, 0, factor, l2).ok());
        for (int head = 0; head < lanes_.shape().n_heads(); ++head) {
            const int h = head / lanes_.shape().n_group;
            ASSERT_EQ(l1.length(head), lanes_.length(h));
            for (int j = 0; j < lanes_.length(h); ++j) {
                const Vector y = projected(wo, head, lanes_.value(h, j));
                EXPECT_NEAR(l1.row(head)[static_cast<size_t>(j)], sum_of_magnitudes(y), 1e-5 * sum_of_magnitudes(y));
                EXPECT_NEAR(l2.row(head)[static_cast<size_t>(j)], norm(y), 1e-4 * norm(y));
            }
        }
    });
}

TEST_P(EvidenceValues, ProductsOfHeadsBehindTheOutputProjectionEqualPlainCode) {
    const std::vector<float> wo = projection();
    const CacheShape & shape = lanes_.shape();
    const std::vector<float> factor =
        *factor_slices(wo, static_cast<size_t>(shape.n_kv_heads), static_cast<size_t>(shape.n_group * shape.head_dim));
    Ragged<float> pairs;
    ASSERT_TRUE(output_pairs(lanes_.runner(), lanes_.cache(), 0, 0, factor, pairs).ok());
    const int n_pairs = n_head_pairs(shape.n_group);
    ASSERT_EQ(pairs.n_rows(), shape.n_kv_heads * n_pairs);
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        for (int j = 0; j < lanes_.length(h); ++j) {
            const Vector v = lanes_.value(h, j);
            for (int g = 0; g < shape.n_group; ++g) {
                const Vector a = projected(wo, h * shape.n_group + g, v);
                for (int other = 0; other < shape.n_group; ++other) {
                    const Vector b = projected(wo, h * shape.n_group + other, v);
                    const float found = pairs.row(h * n_pairs + head_pair(g, other, shape.n_group))[static_cast<size_t>(j)];
                    EXPECT_NEAR(found, dot(a, b), 1e-4 * norm(a) * norm(b));
                }
            }
        }
    }
}

// The layer's output with the entry and without it, every query head renormalised: how far it goes, found by evicting.
TEST_P(EvidenceValues, ErrorsBehindTheOutputProjectionAreThoseOfEvictingTheEntry) {
    const std::vector<float> wo = projection();
    const CacheShape & shape = lanes_.shape();
    const std::vector<float> factor =
        *factor_slices(wo, static_cast<size_t>(shape.n_kv_heads), static_cast<size_t>(shape.n_group * shape.head_dim));
    Ragged<float> weights(lane_lengths(lanes_.cache(), 0, 0, shape.n_group));
    std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
    for (int r = 0; r < weights.n_rows(); ++r) {
        float sum = 0;
        for (float & w : weights.row(r)) { sum += w = std::pow(uniform(lanes_.random()), 8.0F); }
        for (float & w : weights.row(r)) { w /= sum; }
    }
    Ragged<float> odds = weights;
    for (int r = 0; r < odds.n_rows(); ++r) {
        for (float & w : odds.row(r)) { w /= 1 - w; }
    }
    const LaneValues values(lanes_.runner(), lanes_.cache(), 0, 0, factor);
    Ragged<float> errors;
    ASSERT_TRUE(values.output_errors(weights, odds, errors).ok());
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        for (int gone = 0; gone < lanes_.length(h); gone += 37) {
            Vector moved(kEmbd, 0.0);
            for (int g = 0; g < shape.n_group; ++g) {
                const int head = h * shape.n_group + g;
                const auto w = weights.row(head);
                Vector change(static_cast<size_t>(shape.head_dim), 0.0);  // without - with
                double left = 0;
                double all = 0;
                for (int j = 0; j < lanes_.length(h); ++j) {
                    all += w[static_cast<size_t>(j)];
                    left += j == gone ? 0.0 : w[static_cast<size_t>(j)];
                }
                for (int j = 0; j < lanes_.length(h); ++j) {
                    const Vector v = lanes_.value(h, j);
                    const double share = (j == gone ? 0.0 : w[static_cast<size_t>(j)] / left) - w[static_cast<size_t>(j)] / all;
                    for (size_t c = 0; c < v.size(); ++c) { change[c] += share * v[c]; }
                }
                const Vector behind = projected(wo, head, change);
                for (size_t r = 0; r < moved.size(); ++r) { moved[r] += behind[r]; }
            }
            EXPECT_NEAR(errors.row(h)[static_cast<size_t>(gone)], norm(moved), 1e-3 * norm(moved) + 1e-6);
        }
    }
    const LaneValues without(lanes_.runner(), lanes_.cache(), 0, 0);
    EXPECT_EQ(without.output_errors(weights, odds, errors).code(), ErrorCode::kMissingEvidence);
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, EvidenceValues, testing::lane_cases());
INSTANTIATE_TEST_SUITE_P(RotatedTypes, EvidenceValues,
                         ::testing::Values(LaneCase{GGML_TYPE_Q8_0, 2, 3, 64, true}, LaneCase{GGML_TYPE_Q8_0, 1, 2, 96, true},
                                           LaneCase{GGML_TYPE_Q4_0, 2, 2, 32, true}, LaneCase{GGML_TYPE_F16, 2, 2, 64, true}));

// C·Cᵀ = W·Wᵀ element by element, for full and for lacking rank, and for a slice of zeros.
TEST(OutputFactor, TimesItsTransposeIsTheGramMatrixOfTheSlice) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    constexpr size_t kHeads = 3;
    for (const size_t dv : {8U, 20U, 64U}) {
        for (const size_t n_embd : {7U, 300U}) {
            std::vector<float> rows(n_embd * kHeads * dv);
            for (float & one : rows) { one = normal(random); }
            for (size_t r = 0; r < n_embd; ++r) {
                for (size_t c = 0; c < dv; ++c) { rows[(r * kHeads + 2) * dv + c] = 0.0F; }
            }
            const std::vector<float> factor = *factor_slices(rows, kHeads, dv);
            ASSERT_EQ(factor.size(), kHeads * dv * dv);
            for (size_t g = 0; g < kHeads; ++g) {
                for (size_t a = 0; a < dv; ++a) {
                    for (size_t b = 0; b < dv; ++b) {
                        double expected = 0;
                        double got = 0;
                        for (size_t r = 0; r < n_embd; ++r) {
                            expected += static_cast<double>(rows[(r * kHeads + g) * dv + a]) * rows[(r * kHeads + g) * dv + b];
                        }
                        for (size_t k = 0; k < dv; ++k) {
                            got += static_cast<double>(factor[(g * dv + k) * dv + a]) * factor[(g * dv + k) * dv + b];
                        }
                        ASSERT_NEAR(got, expected, 1e-6 * static_cast<double>(n_embd)) << "dv " << dv << ", D " << n_embd;
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace pith::evidence_values_test
