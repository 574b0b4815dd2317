// random_lanes.h - a cache of one layer with ragged lanes of random keys and values, and plain f64 code over what it holds.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "attention/lane_attention.h"
#include "attention/lane_rotation.h"
#include "cache/ragged_cache.h"
#include "device/backend.h"
#include "device/graph_runner.h"

namespace pith::testing {

using Vector = std::vector<double>;

class RandomLanes {
public:
    // Feeds n_first tokens, evicts about a third of each lane, and feeds n_last more, whose queries are kept as the newest
    // ones.
    RandomLanes(ggml_type type, int n_kv_heads, int n_group, int head_dim, int n_first, int n_last, float attention_scale = 0,
                float softcap = 0, bool with_sinks = false, bool rotated = false) {
        EXPECT_TRUE(load_backends().ok());
        auto backend = make_cpu_backend(1);
        EXPECT_TRUE(backend.ok());
        backend_ = *backend;
        CacheLayout layout;
        layout.shape = {1, n_kv_heads, n_group, head_dim};
        layout.head_dim_v = head_dim;
        layout.attention_scale = attention_scale == 0 ? usual_attention_scale(head_dim) : attention_scale;
        layout.type_k = layout.type_v = type;
        layout.rotates_quantised = rotated;
        if (rotated) {
            layout.key_offsets = std::make_shared<std::vector<std::vector<float>>>(
                1, random_values(static_cast<size_t>(n_kv_heads * head_dim), 2.0F));
        }
        layout.attention_softcap = softcap;
        if (with_sinks) {  // from hardly any attention to nearly all of it
            auto sinks = std::make_shared<std::vector<std::vector<float>>>(1);
            for (int head = 0; head < layout.shape.n_heads(); ++head) {
                sinks->front().push_back(-2.0F + 3.0F * static_cast<float>(head));
            }
            layout.sinks = sinks;
        }
        cache_ = std::move(*RaggedCache::make(layout, n_first + n_last));
        runner_ = std::make_unique<GraphRunner>(backend_);
        feed(n_first, 0);
        evict_at_random();
        feed(n_last, n_first);
    }
    ~RandomLanes() {
        runner_.reset();
        ggml_backend_free(backend_);
    }
    RandomLanes(const RandomLanes &) = delete;
    RandomLanes & operator=(const RandomLanes &) = delete;

    GraphRunner & runner() { return *runner_; }
    RaggedCache & cache() { return *cache_; }
    const CacheShape & shape() const { return cache_->layout().shape; }
    std::mt19937 & random() { return random_; }
    int n_seen() const { return static_cast<int>(queries_.size()) / row_size(); }
    int length(int kv_head) const { return cache_->length(kv_head); }

    std::vector<float> random_values(size_t n, float mean = 0.0F) {
        std::normal_distribution<float> normal(mean, 1.0F);
        std::vector<float> values(n);
        for (float & value : values) { value = normal(random_); }
        return values;
    }

    // Queries [n_seen][H][d] from position `first` on.
    const float * queries(int first = 0) const { return queries_.data() + static_cast<int64_t>(first) * row_size(); }
    int row_size() const { return shape().n_heads() * shape().head_dim; }

    Ragged<int32_t> evict_at_random() {
        Ragged<int32_t> keep;
        for (int h = 0; h < shape().n_kv_heads; ++h) {
            std::vector<int32_t> kept;
            for (int i = 0; i < cache_->length(h); ++i) {
                if (random_() % 3 != 0) { kept.push_back(i); }
            }
            keep.push_row(kept);
        }
        cache_->compact(0, 0, keep);
        return keep;
    }

    // Random tokens behind every lane.
    void feed(int n, int first_position) {
        const auto d = static_cast<size_t>(shape().head_dim);
        const auto q = random_values(static_cast<size_t>(n * shape().n_heads()) * d);
        queries_.insert(queries_.end(), q.begin(), q.end());
        const auto k = random_values(static_cast<size_t>(n * shape().n_kv_heads) * d, 0.3F);
        const auto v = random_values(static_cast<size_t>(n * shape().n_kv_heads) * d, 0.5F);
        std::vector<int32_t> positions(static_cast<size_t>(n));
        std::iota(positions.begin(), positions.end(), first_position);
        EXPECT_TRUE(cache_->reserve(0, 0, n).ok());
        cache_->append(0, 0, positions);
        GraphBuild * build = *runner_->begin(512);
        const auto input = [&](const std::vector<float> & values, int heads) {
            return ggml_reshape_3d(build->ctx(), build->input(GGML_TYPE_F32, shape().head_dim * heads, n, values.data()),
                                   shape().head_dim, heads, n);
        };
        std::vector<float> out(q.size());
        ggml_tensor * query = input(q, shape().n_heads());
        ggml_tensor * key = input(k, shape().n_kv_heads);
        ggml_tensor * value = input(v, shape().n_kv_heads);
        LaneRotation(*build, cache_->layout()).into_lanes(0, query, key, value);
        build->output(build_lane_attention(*build, single_part(*cache_, 0, n), 0, query, key, value), out.data());
        EXPECT_TRUE(runner_->run().ok());
    }

    Vector key(int head, int index) const {
        Vector k = row(cache_->k(0), head, index);
        const auto offset = cache_->layout().key_offset(0, head);
        for (size_t c = 0; c < offset.size(); ++c) { k[c] += double{offset[c]}; }
        return k;
    }
    Vector value(int head, int index) const { return row(cache_->v(0), head, index); }

    // Probabilities of query head g of the query at `position` over its lane; entries it may not see are 0.
    Vector probabilities(int head, int position) const {
        const int h = head / shape().n_group;
        const auto positions = cache_->positions(h);
        Vector p(positions.size(), 0.0);
        double sum = 0;
        const float * q = queries(position) + static_cast<int64_t>(head) * shape().head_dim;
        for (size_t j = 0; j < positions.size() && positions[j] <= position; ++j) {
            const Vector k = key(h, static_cast<int>(j));
            double dot = 0;
            for (size_t c = 0; c < k.size(); ++c) { dot += k[c] * static_cast<double>(q[c]); }
            const double score = dot / std::sqrt(static_cast<double>(shape().head_dim));
            const double cap = cache_->layout().attention_softcap;
            p[j] = std::exp(cap == 0 ? score : cap * std::tanh(score / cap));
            sum += p[j];
        }
        if (const auto sinks = cache_->layout().sinks_of(0); sum > 0 && !sinks.empty()) {
            sum += std::exp(static_cast<double>(sinks[static_cast<size_t>(head)]));
        }
        for (double & one : p) { one /= sum > 0 ? sum : 1.0; }
        return p;
    }

private:
    // What the cache really holds (quantised rows decoded by ggml), rotated rows as they were before.
    Vector row(ggml_tensor * flat, int head, int index) const {
        std::vector<float> values(static_cast<size_t>(flat->ne[0]));
        const auto * data =
            static_cast<uint8_t *>(flat->data) + static_cast<size_t>(cache_->cell(0, 0, head, index)) * flat->nb[1];
        if (flat->type == GGML_TYPE_F32) {
            std::copy_n(reinterpret_cast<const float *>(data), values.size(), values.data());
        } else {
            ggml_get_type_traits(flat->type)->to_float(data, values.data(), flat->ne[0]);
        }
        const Vector held(values.begin(), values.end());
        return cache_->layout().rotates_quantised && ggml_is_quantized(flat->type) ? rotated(held) : held;
    }

    // Rotated rows as they were before: the matrix's elements are (-1)^(ones that i and j have in common) / sqrt(n), and it is
    // its own inverse; n is the largest power of two in the row's length.
    static Vector rotated(const Vector & row) {
        size_t n = 1;
        while (row.size() % (2 * n) == 0) { n *= 2; }
        Vector out(row.size(), 0.0);
        for (size_t i = 0; i < row.size(); ++i) {
            for (size_t j = i / n * n; j < i / n * n + n; ++j) {
                out[i] += (std::popcount(i % n & j % n) % 2 != 0 ? -row[j] : row[j]) / std::sqrt(static_cast<double>(n));
            }
        }
        return out;
    }

    std::mt19937 random_{17};
    ggml_backend_t backend_ = nullptr;
    std::unique_ptr<RaggedCache> cache_;
    std::unique_ptr<GraphRunner> runner_;
    std::vector<float> queries_;
};

inline double norm(const Vector & x) {
    return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

inline double dot(const Vector & a, const Vector & b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct LaneCase {
    ggml_type type;
    int n_kv_heads;
    int n_group;
    int head_dim;
    bool rotated = false;
};

inline void PrintTo(const LaneCase & c, std::ostream * out) {
    *out << (c.rotated ? "rotated " : "") << ggml_type_name(c.type) << " K=" << c.n_kv_heads << " G=" << c.n_group
         << " d=" << c.head_dim;
}

inline auto lane_cases() {
    return ::testing::Values(LaneCase{GGML_TYPE_F32, 3, 1, 32}, LaneCase{GGML_TYPE_F32, 2, 4, 64},
                             LaneCase{GGML_TYPE_F32, 1, 7, 80}, LaneCase{GGML_TYPE_F16, 2, 2, 64},
                             LaneCase{GGML_TYPE_BF16, 2, 2, 64}, LaneCase{GGML_TYPE_Q8_0, 2, 3, 64},
                             LaneCase{GGML_TYPE_Q4_0, 2, 2, 32});
}

}  // namespace pith::testing
