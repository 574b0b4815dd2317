// expected_attention_test.cpp - moments of queries and the exponent made of them, against plain f64 code that rotates by
// formula, position by position; and the output projection read back from model files.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/random_lanes.h"
#include "attention/rotation_only.h"
#include "evidence/evidence_state.h"
#include "evidence/lane_tiles.h"

namespace pith::expected_attention_test {
namespace {

using testing::dot;
using testing::RandomLanes;
using testing::rotation_cases;
using testing::RotationCase;
using testing::RotationOnly;
using testing::Vector;

struct Moments {
    Vector mean;
    std::vector<Vector> covariance;
};

// Of queries [n][H][d] from the fifth on, biased.
Moments plain_moments(const std::vector<float> & queries, size_t n_heads, size_t d, size_t head) {
    const size_t n = queries.size() / (n_heads * d);
    const size_t first = n > kSinkQueries ? kSinkQueries : 0;
    const auto at = [&](size_t i, size_t c) { return static_cast<double>(queries[(i * n_heads + head) * d + c]); };
    Moments moments{Vector(d, 0.0), std::vector<Vector>(d, Vector(d, 0.0))};
    const auto count = static_cast<double>(n - first);
    for (size_t i = first; i < n; ++i) {
        for (size_t c = 0; c < d; ++c) { moments.mean[c] += at(i, c) / count; }
    }
    for (size_t i = first; i < n; ++i) {
        for (size_t r = 0; r < d; ++r) {
            for (size_t c = 0; c < d; ++c) {
                moments.covariance[r][c] += (at(i, r) - moments.mean[r]) * (at(i, c) - moments.mean[c]) / count;
            }
        }
    }
    return moments;
}

// Feeds queries [n][H][d] to a state in runs of `step`, as the engine does before RoPE.
void feed(EvidenceState & state, GraphRunner & runner, const std::vector<float> & queries, int n_heads, int d, int step) {
    const int n = static_cast<int>(queries.size()) / (n_heads * d);
    for (int first = 0; first < n; first += step) {
        const int m = std::min(step, n - first);
        GraphBuild * build = *runner.begin(64);
        ggml_tensor * q = build->input(GGML_TYPE_F32, d * n_heads, m, queries.data() + int64_t{first} * n_heads * d);
        QueryMoments moments;
        build_query_moments(*build, ggml_reshape_3d(build->ctx(), q, d, n_heads, m), first, moments);
        ASSERT_TRUE(runner.run().ok());
        state.add_moments(0, moments);
    }
}

// Whether by Pith's operations on the CPU or by ggml's.
class ExpectedAttention : public ::testing::TestWithParam<bool> {};

TEST_P(ExpectedAttention, EqualsTheRotationOfEveryFuturePositionByFormula) {
    for (const float scale : {usual_attention_scale(32), 0.3F}) {
        RandomLanes lanes(GGML_TYPE_F32, 2, 2, 32, 50, 14, scale);
        lanes.runner().set_custom_operations(GetParam());
        const auto d = static_cast<size_t>(lanes.shape().head_dim);
        const auto n_heads = static_cast<size_t>(lanes.shape().n_heads());
        auto queries = lanes.random_values(64 * n_heads * d, 1.5F);            // with a mean, as real queries have
        for (size_t i = 0; i < 4 * n_heads * d; ++i) { queries[i] *= 50.0F; }  // sinks that must not count
        for (const RotationCase & c : rotation_cases()) {
            for (const int future : {1, 40, 512}) {
                SCOPED_TRACE(std::string(c.name) + ", " + std::to_string(future));
                const auto model = std::make_shared<RotationOnly>(c.hparams, c.factors, c.query_norm);
                EvidenceNeeds needs;
                needs.expected_future = future;
                EvidenceState state(lanes.shape(), needs, std::make_shared<OutputMatrices>(model));
                feed(state, lanes.runner(), queries, lanes.shape().n_heads(), lanes.shape().head_dim, 23);
                const auto evidence = state.gather(lanes.runner(), lanes.cache(), 0, 0, 64, needs);
                ASSERT_TRUE(evidence.ok()) << evidence.status().message();
                // R̄, column by column.
                std::vector<Vector> columns(d, Vector(d, 0.0));
                for (size_t i = 0; i < d; ++i) {
                    Vector basis(d, 0.0);
                    basis[i] = 1.0;
                    for (int f = 0; f < future; ++f) {
                        const Vector rotated = model->rotate(basis, 64 + f);
                        for (size_t r = 0; r < d; ++r) { columns[i][r] += rotated[r] / future; }
                    }
                }
                for (size_t head = 0; head < n_heads; ++head) {
                    const Moments moments = plain_moments(queries, n_heads, d, head);
                    const int lane = static_cast<int>(head) / lanes.shape().n_group;
                    for (int j = 0; j < lanes.length(lane); ++j) {
                        Vector k = lanes.key(lane, j);
                        for (size_t i = 0; i < c.query_norm.size(); ++i) { k[i] *= static_cast<double>(c.query_norm[i]); }
                        Vector back(d);  // R̄ᵀk
                        for (size_t i = 0; i < d; ++i) { back[i] = dot(columns[i], k); }
                        double quadratic = 0;
                        for (size_t r = 0; r < d; ++r) { quadratic += back[r] * dot(moments.covariance[r], back); }
                        const double linear = dot(back, moments.mean) * double{scale};
                        quadratic *= double{scale} * double{scale} / 2;
                        const double expected = linear + quadratic;
                        // ggml's angles are f32 products: their error grows with the position.
                        EXPECT_NEAR(evidence->expected.row(static_cast<int>(head))[static_cast<size_t>(j)], expected,
                                    (future > 100 ? 5e-5 : 1e-5) * std::max(1.0, std::abs(linear) + quadratic));
                    }
                }
            }
        }
    }
}

TEST_P(ExpectedAttention, DoesNotDependOnHowTheQueriesArrived) {
    RandomLanes lanes(GGML_TYPE_F32, 2, 2, 32, 30, 10);
    lanes.runner().set_custom_operations(GetParam());
    const auto queries = lanes.random_values(static_cast<size_t>(90 * lanes.row_size()), 20.0F);
    const auto model = std::make_shared<RotationOnly>(rotation_cases().front().hparams);
    EvidenceNeeds needs;
    needs.expected_future = 16;
    std::vector<LayerEvidence> found;
    for (const int step : {90, 1, 3, 32}) {
        EvidenceState state(lanes.shape(), needs, std::make_shared<OutputMatrices>(model));
        feed(state, lanes.runner(), queries, lanes.shape().n_heads(), lanes.shape().head_dim, step);
        auto evidence = state.gather(lanes.runner(), lanes.cache(), 0, 0, 90, needs);
        ASSERT_TRUE(evidence.ok());
        found.push_back(*evidence);
    }
    for (const LayerEvidence & other : found) {
        for (size_t j = 0; j < other.expected.size(); ++j) {
            EXPECT_NEAR(other.expected.flat()[j], found[0].expected.flat()[j],
                        1e-5 * std::max(1.0F, std::abs(found[0].expected.flat()[j])));
        }
    }
}

TEST_P(ExpectedAttention, FewerThanFiveQueriesCountAllTheSame) {
    RandomLanes lanes(GGML_TYPE_F32, 1, 2, 32, 2, 1);
    lanes.runner().set_custom_operations(GetParam());
    const auto queries = lanes.random_values(static_cast<size_t>(3 * lanes.row_size()));
    const auto model = std::make_shared<RotationOnly>(rotation_cases().front().hparams);
    EvidenceNeeds needs;
    needs.expected_future = 1;
    EvidenceState state(lanes.shape(), needs, std::make_shared<OutputMatrices>(model));
    EXPECT_EQ(state.gather(lanes.runner(), lanes.cache(), 0, 0, 3, needs).status().code(), ErrorCode::kMissingEvidence);
    feed(state, lanes.runner(), queries, 2, 32, 2);
    EXPECT_TRUE(state.gather(lanes.runner(), lanes.cache(), 0, 0, 3, needs).ok());
    // The fifth query drops them.
    const auto five = lanes.random_values(static_cast<size_t>(5 * lanes.row_size()));
    EvidenceState later(lanes.shape(), needs, std::make_shared<OutputMatrices>(model));
    feed(later, lanes.runner(), five, 2, 32, 1);
    const auto evidence = later.gather(lanes.runner(), lanes.cache(), 0, 0, 3, needs);
    ASSERT_TRUE(evidence.ok());
    const Vector last(five.begin() + 4 * 64, five.begin() + 4 * 64 + 32);
    const Vector k = lanes.key(0, 0);
    EXPECT_NEAR(evidence->expected.row(0)[0], dot(model->rotate(last, 3), k) / std::sqrt(32.0), 1e-5);
}

// Head sizes that fill no block of registers, more queries than a block holds, keys of every type.
TEST_P(ExpectedAttention, MomentsAndExponentsEqualPlainCodeForEveryShapeAndType) {
    for (const auto & [type, n_kv_heads, n_group, head_dim, rotated] :
         {testing::LaneCase{GGML_TYPE_F32, 2, 1, 36}, testing::LaneCase{GGML_TYPE_F32, 1, 3, 80},
          testing::LaneCase{GGML_TYPE_F16, 2, 2, 64}, testing::LaneCase{GGML_TYPE_BF16, 1, 2, 8},
          testing::LaneCase{GGML_TYPE_Q8_0, 1, 2, 128}, testing::LaneCase{GGML_TYPE_Q4_0, 2, 2, 32},
          testing::LaneCase{GGML_TYPE_Q8_0, 1, 2, 128, true}, testing::LaneCase{GGML_TYPE_Q4_0, 2, 2, 96, true}}) {
        RandomLanes lanes(type, n_kv_heads, n_group, head_dim, 60, 21, 0, 0, false, rotated);
        lanes.runner().set_custom_operations(GetParam());
        SCOPED_TRACE(std::string(ggml_type_name(type)) + " d=" + std::to_string(head_dim));
        const auto d = static_cast<size_t>(head_dim);
        const auto n_heads = static_cast<size_t>(lanes.shape().n_heads());
        const auto queries = lanes.random_values(300 * n_heads * d, 3.0F);
        GraphBuild * build = *lanes.runner().begin(64);
        ggml_tensor * q = build->input(GGML_TYPE_F32, lanes.row_size(), 300, queries.data());
        QueryMoments moments;
        build_query_moments(*build, ggml_reshape_3d(build->ctx(), q, head_dim, lanes.shape().n_heads(), 300), 0, moments);
        ASSERT_TRUE(lanes.runner().run().ok());
        ASSERT_EQ(moments.n, 296);
        MeanRotation none;
        for (int i = 0; i < head_dim; ++i) { none.rows.push_back({{i, 1.0}}); }
        Ragged<float> exponents;
        KeptMoments kept;
        merge(moments, head_dim, kept);
        ASSERT_TRUE(expected_exponents(lanes.runner(), lanes.cache(), 0, 0, kept, none, {}, exponents).ok());
        for (size_t head = 0; head < n_heads; ++head) {
            const Moments plain = plain_moments(queries, n_heads, d, head);
            for (size_t r = 0; r < d; ++r) {
                ASSERT_NEAR(moments.mean[head * d + r], plain.mean[r], 1e-5);
                for (size_t c = 0; c < d; ++c) {
                    ASSERT_NEAR(moments.squares[(head * d + r) * d + c] / 296, plain.covariance[r][c], 1e-5);
                }
            }
            const int lane = static_cast<int>(head) / n_group;
            for (int j = 0; j < lanes.length(lane); ++j) {
                const Vector k = lanes.key(lane, j);
                double quadratic = 0;
                for (size_t r = 0; r < d; ++r) { quadratic += k[r] * dot(plain.covariance[r], k); }
                const double linear = dot(k, plain.mean) / std::sqrt(static_cast<double>(d));
                const double expected = linear + quadratic / (2.0 * static_cast<double>(d));
                ASSERT_NEAR(exponents.row(static_cast<int>(head))[static_cast<size_t>(j)], expected,
                            1e-5 * std::max(1.0, std::abs(linear) + quadratic));
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(CustomOperations, ExpectedAttention, ::testing::Bool());

}  // namespace
}  // namespace pith::expected_attention_test
