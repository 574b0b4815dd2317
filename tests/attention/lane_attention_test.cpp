// lane_attention_test.cpp - attention and evidence over random ragged lanes against plain f64 code.
#include "attention/lane_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "attention/cpu/cpu_lane_attention.h"
#include "attention/rounding.h"
#include "device/backend.h"
#include "evidence/entry_norms.h"
#include "evidence/observe.h"

namespace pith::lane_attention_test {
namespace {

struct Case {
    ggml_type type;
    int n_kv_heads;
    int n_group;
    int head_dim;
    int n_new;
    double portable = 0;  // ggml's operations only, as other back ends run: what they may be off by, of the largest output
};

void PrintTo(const Case & c, std::ostream * out) {
    *out << ggml_type_name(c.type) << " K=" << c.n_kv_heads << " G=" << c.n_group << " d=" << c.head_dim << " n=" << c.n_new
         << (c.portable > 0 ? " portable" : "");
}

class LaneAttentionTest : public ::testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        auto backend = make_cpu_backend(2);
        ASSERT_TRUE(backend.ok());
        backend_ = *backend;
        CacheLayout layout;
        layout.shape = {1, GetParam().n_kv_heads, GetParam().n_group, GetParam().head_dim};
        layout.head_dim_v = GetParam().head_dim;
        layout.attention_scale = usual_attention_scale(GetParam().head_dim);
        layout.type_k = layout.type_v = GetParam().type;
        auto cache = RaggedCache::make(layout, 512);
        ASSERT_TRUE(cache.ok());
        cache_ = std::move(*cache);
        runner_ = std::make_unique<GraphRunner>(backend_);
        if (GetParam().portable > 0) { runner_->set_custom_operations(false); }
    }
    void TearDown() override {
        runner_.reset();
        ggml_backend_free(backend_);
    }

    std::vector<float> random_values(size_t n) {
        std::normal_distribution<float> normal;
        std::vector<float> values(n);
        for (float & value : values) { value = normal(random_); }
        return values;
    }

    // Of the largest output, for n queries.
    static double tolerance(int n) {
        const KvFormat format = format_of(GetParam().type).value();
        return GetParam().portable > 0
                   ? GetParam().portable
                   : testing::attention_rounding(format, format, GetParam().head_dim, n * GetParam().n_group);
    }
    // Of probabilities.
    static double evidence_tolerance() { return 20 * (GetParam().portable > 0 ? GetParam().portable : testing::kF32Rounding); }

    // Feeds n tokens; the result is [n][H·d].
    std::vector<float> attend(int n, int first_position) {
        const CacheShape & shape = cache_->layout().shape;
        const auto d = static_cast<size_t>(shape.head_dim);
        queries_ = random_values(static_cast<size_t>(n * shape.n_heads()) * d);
        const auto k = random_values(static_cast<size_t>(n * shape.n_kv_heads) * d);
        const auto v = random_values(static_cast<size_t>(n * shape.n_kv_heads) * d);
        std::vector<int32_t> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), first_position);
        EXPECT_TRUE(cache_->reserve(0, 0, n).ok());
        cache_->append(0, 0, positions);
        GraphBuild * build = *runner_->begin(512);
        const auto input = [&](const std::vector<float> & values, int heads) {
            return ggml_reshape_3d(build->ctx(), build->input(GGML_TYPE_F32, shape.head_dim * heads, n, values.data()),
                                   shape.head_dim, heads, n);
        };
        std::vector<float> out(queries_.size());
        ggml_tensor * q = input(queries_, shape.n_heads());
        ggml_tensor * key = input(k, shape.n_kv_heads);
        ggml_tensor * value = input(v, shape.n_kv_heads);
        build->output(build_lane_attention(*build, single_part(*cache_, 0, n), 0, q, key, value), out.data());
        EXPECT_TRUE(runner_->run().ok());
        return out;
    }

    void evict_at_random() {
        Ragged<int32_t> keep;
        for (int h = 0; h < cache_->layout().shape.n_kv_heads; ++h) {
            std::vector<int32_t> kept;
            for (int i = 0; i < cache_->length(h); ++i) {
                if (random_() % 3 != 0) { kept.push_back(i); }
            }
            keep.push_row(kept);
        }
        cache_->compact(0, 0, keep);
    }

    // What the cache really holds, as f32 (quantised rows decoded by ggml).
    std::vector<float> row(ggml_tensor * flat, int head, int index) const {
        std::vector<float> values(static_cast<size_t>(flat->ne[0]));
        const auto * data =
            static_cast<uint8_t *>(flat->data) + static_cast<size_t>(cache_->cell(0, 0, head, index)) * flat->nb[1];
        if (flat->type == GGML_TYPE_F32) {
            std::copy_n(reinterpret_cast<const float *>(data), values.size(), values.data());
        } else {
            ggml_get_type_traits(flat->type)->to_float(data, values.data(), flat->ne[0]);
        }
        return values;
    }

    // Probabilities of query head g, query i over its lane, f64; entries it may not see are 0.
    std::vector<double> plain_probabilities(int head, int i, int32_t query_position) const {
        const CacheShape & shape = cache_->layout().shape;
        const int h = head / shape.n_group;
        const auto positions = cache_->positions(h);
        std::vector<double> p(positions.size(), 0.0);
        double sum = 0;
        for (size_t j = 0; j < positions.size() && positions[j] <= query_position; ++j) {
            const auto key = row(cache_->k(0), h, static_cast<int>(j));
            double dot = 0;
            for (int c = 0; c < shape.head_dim; ++c) {
                dot += static_cast<double>(queries_[static_cast<size_t>((i * shape.n_heads() + head) * shape.head_dim + c)]) *
                       key[static_cast<size_t>(c)];
            }
            p[j] = std::exp(dot / std::sqrt(static_cast<double>(shape.head_dim)));
            sum += p[j];
        }
        for (double & value : p) { value /= sum; }
        return p;
    }

    std::mt19937 random_{11};
    ggml_backend_t backend_ = nullptr;
    std::unique_ptr<RaggedCache> cache_;
    std::unique_ptr<GraphRunner> runner_;
    std::vector<float> queries_;
};

TEST_P(LaneAttentionTest, EqualsPlainCodeOverRaggedLanes) {
    attend(60, 0);
    evict_at_random();
    attend(33, 60);
    evict_at_random();
    const int n = GetParam().n_new;
    const auto out = attend(n, 93);
    const CacheShape & shape = cache_->layout().shape;
    double worst = 0;
    double largest = 0;
    for (int i = 0; i < n; ++i) {
        for (int g = 0; g < shape.n_heads(); ++g) {
            const auto p = plain_probabilities(g, i, 93 + i);
            std::vector<double> expected(static_cast<size_t>(shape.head_dim), 0.0);
            for (size_t j = 0; j < p.size(); ++j) {
                const auto value = row(cache_->v(0), g / shape.n_group, static_cast<int>(j));
                for (size_t c = 0; c < expected.size(); ++c) { expected[c] += p[j] * value[c]; }
            }
            for (size_t c = 0; c < expected.size(); ++c) {
                const double got = out[static_cast<size_t>((i * shape.n_heads() + g) * shape.head_dim) + c];
                worst = std::max(worst, std::abs(got - expected[c]));
                largest = std::max(largest, std::abs(expected[c]));
            }
        }
    }
    EXPECT_LE(worst, tolerance(n) * largest);
}

TEST_P(LaneAttentionTest, EvidenceEqualsPlainCodeOverRaggedLanes) {
    attend(70, 0);
    evict_at_random();
    const int n = GetParam().n_new;
    attend(n, 70);
    const CacheShape & shape = cache_->layout().shape;
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), 70);
    Observed observed;
    ASSERT_TRUE(observe_queries(*runner_, *cache_, 0, 0, queries_.data(), positions,
                                {.column_sum = true, .group_sq = true, .last = true}, observed)
                    .ok());
    const double tolerance = evidence_tolerance();
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        std::vector<double> squares(static_cast<size_t>(cache_->length(h)), 0.0);
        std::vector<std::vector<double>> sums(static_cast<size_t>(shape.n_group), squares);
        for (int i = 0; i < n; ++i) {
            std::vector<double> mean(squares.size(), 0.0);
            for (int g = 0; g < shape.n_group; ++g) {
                const auto p = plain_probabilities(h * shape.n_group + g, i, 70 + i);
                for (size_t j = 0; j < p.size(); ++j) {
                    mean[j] += p[j] / shape.n_group;
                    sums[static_cast<size_t>(g)][j] += p[j];
                    if (i == n - 1) { EXPECT_NEAR(observed.last.row(h * shape.n_group + g)[j], p[j], tolerance); }
                }
            }
            for (size_t j = 0; j < mean.size(); ++j) { squares[j] += mean[j] * mean[j]; }
        }
        for (size_t j = 0; j < squares.size(); ++j) {
            EXPECT_NEAR(observed.group_sq.row(h)[j], squares[j], tolerance * n);
            for (int g = 0; g < shape.n_group; ++g) {
                EXPECT_NEAR(observed.column_sum.row(h * shape.n_group + g)[j], sums[static_cast<size_t>(g)][j], tolerance * n);
            }
        }
    }
    Ragged<float> norms;
    ASSERT_TRUE(value_norms(*runner_, *cache_, 0, 0, EntryNorm::kL2, norms).ok());
    for (int h = 0; h < shape.n_kv_heads; ++h) {
        for (int j = 0; j < cache_->length(h); ++j) {
            double sum = 0;
            for (const float c : row(cache_->v(0), h, j)) { sum += static_cast<double>(c) * c; }
            EXPECT_NEAR(norms.row(h)[static_cast<size_t>(j)], std::sqrt(sum), 1e-5 * std::sqrt(sum));
        }
    }
}

// Queries older than some evictions see only what is left and not newer than they are.
TEST_P(LaneAttentionTest, ObservedQueriesRespectPositionsAfterEviction) {
    const int n = GetParam().n_new;
    attend(40, 0);
    attend(n, 40);
    evict_at_random();
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), 40);
    Observed observed;
    ASSERT_TRUE(observe_queries(*runner_, *cache_, 0, 0, queries_.data(), positions, {.column_sum = true}, observed).ok());
    const CacheShape & shape = cache_->layout().shape;
    for (int g = 0; g < shape.n_heads(); ++g) {
        std::vector<double> sums(static_cast<size_t>(cache_->length(g / shape.n_group)), 0.0);
        for (int i = 0; i < n; ++i) {
            const auto p = plain_probabilities(g, i, 40 + i);
            for (size_t j = 0; j < p.size(); ++j) { sums[j] += p[j]; }
        }
        for (size_t j = 0; j < sums.size(); ++j) {
            EXPECT_NEAR(observed.column_sum.row(g)[j], sums[j], evidence_tolerance() * n);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, LaneAttentionTest,
                         ::testing::Values(Case{GGML_TYPE_F32, 3, 1, 32, 1}, Case{GGML_TYPE_F16, 2, 2, 80, 40},
                                           Case{GGML_TYPE_F32, 2, 4, 64, 9}, Case{GGML_TYPE_F32, 1, 7, 64, 150},
                                           Case{GGML_TYPE_F16, 2, 2, 64, 1}, Case{GGML_TYPE_F16, 4, 2, 128, 70},
                                           Case{GGML_TYPE_BF16, 2, 2, 64, 1}, Case{GGML_TYPE_BF16, 2, 2, 64, 20},
                                           Case{GGML_TYPE_Q8_0, 2, 3, 64, 1}, Case{GGML_TYPE_Q8_0, 2, 3, 64, 20},
                                           Case{GGML_TYPE_Q4_0, 2, 2, 32, 1}, Case{GGML_TYPE_Q4_0, 2, 2, 32, 20}));

INSTANTIATE_TEST_SUITE_P(PortableTypesAndGroups, LaneAttentionTest,
                         ::testing::Values(Case{GGML_TYPE_F32, 3, 1, 32, 1, 1e-5}, Case{GGML_TYPE_F32, 2, 4, 64, 9, 1e-5},
                                           Case{GGML_TYPE_F32, 1, 7, 64, 150, 1e-5}, Case{GGML_TYPE_F16, 2, 2, 64, 1, 5e-3},
                                           Case{GGML_TYPE_F16, 4, 2, 128, 70, 5e-3}, Case{GGML_TYPE_BF16, 2, 2, 64, 1, 2e-2},
                                           Case{GGML_TYPE_BF16, 2, 2, 64, 20, 2e-2}, Case{GGML_TYPE_Q8_0, 2, 3, 64, 1, 2e-2},
                                           Case{GGML_TYPE_Q8_0, 2, 3, 64, 20, 2e-2}, Case{GGML_TYPE_Q4_0, 2, 2, 32, 1, 2e-2},
                                           Case{GGML_TYPE_Q4_0, 2, 2, 32, 20, 2e-2}));

}  // namespace
}  // namespace pith::lane_attention_test
