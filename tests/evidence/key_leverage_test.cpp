// key_leverage_test.cpp - leverage of keys turned back to what they were before RoPE, against plain f64 code that solves the
// equations: every form of rotation, sketched and not, every K type.
#include "evidence/key_leverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "attention/rotation_only.h"
#include "evidence/evidence_state.h"

namespace pith::key_leverage_test {
namespace {

using testing::dot;
using testing::LaneCase;
using testing::RandomLanes;
using testing::rotation_cases;
using testing::RotationCase;
using testing::RotationOnly;
using testing::Vector;

Ragged<float> gather(const RotationCase & c, RandomLanes & lanes) {
    const EvidenceNeeds needs{.key_leverage = true};
    const auto model = std::make_shared<RotationOnly>(c.hparams, c.factors);
    const EvidenceState state(lanes.shape(), needs, std::make_shared<OutputMatrices>(model));
    const auto evidence = state.gather(lanes.runner(), lanes.cache(), 0, 0, lanes.n_seen(), needs);
    EXPECT_TRUE(evidence.ok()) << evidence.status().message();
    return evidence->key_leverage;
}

// y with a·y = x, by Gauss's elimination.
Vector solve(std::vector<Vector> a, Vector x) {
    const size_t n = x.size();
    for (size_t c = 0; c < n; ++c) {
        for (size_t r = c + 1; r < n; ++r) {
            const double factor = a[r][c] / a[c][c];
            for (size_t i = c; i < n; ++i) { a[r][i] -= factor * a[c][i]; }
            x[r] -= factor * x[c];
        }
    }
    for (size_t c = n; c-- > 0;) {
        for (size_t i = c + 1; i < n; ++i) { x[c] -= a[c][i] * x[i]; }
        x[c] /= a[c][c];
    }
    return x;
}

// Keys as they were before they were turned to their positions: turned by as much the other way.
Vector unrotated(const RotationOnly & model, const Vector & key, int position) {
    Vector there = model.rotate(key, -position);
    const Vector again = model.rotate(there, position);
    const double magnitude_squared = dot(again, again) / dot(key, key);  // 1, but under YaRN
    for (double & x : there) { x /= std::sqrt(magnitude_squared); }
    return there;
}

void expect_equals_plain_code(const RotationCase & c, RandomLanes & lanes) {
    const RotationOnly model(c.hparams, c.factors);
    const Ragged<float> got = gather(c, lanes);
    const auto d = static_cast<size_t>(lanes.shape().head_dim);
    const std::vector<float> sketch = key_sketch(static_cast<int>(d));
    const size_t width = sketch.empty() ? d : kSketchColumns;
    for (int h = 0; h < lanes.shape().n_kv_heads; ++h) {
        const auto positions = lanes.cache().positions(h);
        std::vector<Vector> rows;
        for (size_t j = 0; j < positions.size(); ++j) {
            if (positions[j] < kFirstTokens) {
                EXPECT_EQ(got.row(h)[j], 1.0F);
                continue;
            }
            const Vector key = unrotated(model, lanes.key(h, static_cast<int>(j)), positions[j]);
            Vector row(width, 0.0);
            for (size_t s = 0; s < width; ++s) {
                for (size_t i = 0; i < d; ++i) {
                    row[s] += key[i] * (sketch.empty() ? (i == s ? 1.0 : 0.0) : static_cast<double>(sketch[s * d + i]));
                }
            }
            rows.push_back(row);
        }
        std::vector<Vector> products(width, Vector(width, 0.0));
        for (size_t s = 0; s < width; ++s) {
            double mean = 0;
            for (const Vector & row : rows) { mean += row[s] / static_cast<double>(rows.size()); }
            for (Vector & row : rows) { row[s] -= mean; }
        }
        for (size_t r = 0; r < width; ++r) {
            for (size_t s = 0; s < width; ++s) {
                for (const Vector & row : rows) { products[r][s] += row[r] * row[s]; }
            }
            products[r][r] += 1e-2;
        }
        const size_t n_first = positions.size() - rows.size();
        for (size_t j = 0; j < rows.size(); ++j) {
            ASSERT_NEAR(got.row(h)[n_first + j], dot(rows[j], solve(products, rows[j])), 2e-4)
                << "lane " << h << " entry " << j;
        }
    }
}

TEST(KeyLeverage, EqualsPlainCodeInEveryFormOfRotation) {
    RandomLanes lanes(GGML_TYPE_F32, 2, 2, 32, 150, 60);
    for (const RotationCase & c : rotation_cases()) {
        SCOPED_TRACE(c.name);
        if (c.hparams.query_temperature != 0.0F || !c.query_norm.empty()) { continue; }  // of queries alone
        expect_equals_plain_code(c, lanes);
    }
}

class KeyLeverageTypes : public ::testing::TestWithParam<LaneCase> {};

TEST_P(KeyLeverageTypes, EqualsPlainCode) {
    RandomLanes lanes(GetParam().type, GetParam().n_kv_heads, GetParam().n_group, GetParam().head_dim, 90, 60);
    RotationCase c = rotation_cases().front();
    c.hparams.head_dim = c.hparams.n_rot = GetParam().head_dim;
    expect_equals_plain_code(c, lanes);
}
INSTANTIATE_TEST_SUITE_P(TypesAndGroups, KeyLeverageTypes, testing::lane_cases());

// As many keys as dimensions, and fewer: each stands alone.
TEST(KeyLeverage, AFewKeysStandApartAndASingleOneFromNothing) {
    RandomLanes lanes(GGML_TYPE_F32, 1, 1, 32, 40, 1);
    const RotationCase c = rotation_cases().front();
    Ragged<int32_t> keep;
    keep.push_row(std::vector<int32_t>{0, 12, 15, 20, 21});
    lanes.cache().compact(0, 0, keep);
    const Ragged<float> few = gather(c, lanes);
    for (size_t j = 1; j < 5; ++j) {  // less one dimension, which the mean takes
        EXPECT_NEAR(few.row(0)[j], 0.75, 1e-2);
    }
    keep = {};
    keep.push_row(std::vector<int32_t>{1});
    lanes.cache().compact(0, 0, keep);
    EXPECT_EQ(gather(c, lanes).row(0)[0], 0.0F);
    keep = {};
    keep.push_row({});
    lanes.cache().compact(0, 0, keep);
    EXPECT_EQ(gather(c, lanes).length(0), 0);
}

TEST(KeyLeverage, TheSketchIsGaussianAndTheSameEveryTime) {
    const std::vector<float> sketch = key_sketch(128);
    ASSERT_EQ(sketch.size(), size_t{128 * kSketchColumns});
    EXPECT_EQ(sketch, key_sketch(128));
    EXPECT_TRUE(key_sketch(kSketchColumns).empty());
    double mean = 0;
    double variance = 0;
    double fourth = 0;
    for (const float x : sketch) {
        const double scaled = x * std::sqrt(static_cast<double>(kSketchColumns));
        mean += scaled / static_cast<double>(sketch.size());
        variance += scaled * scaled / static_cast<double>(sketch.size());
        fourth += std::pow(scaled, 4) / static_cast<double>(sketch.size());
    }
    EXPECT_NEAR(mean, 0, 0.05);
    EXPECT_NEAR(variance, 1, 0.08);
    EXPECT_NEAR(fourth, 3, 0.4);
}

}  // namespace
}  // namespace pith::key_leverage_test
