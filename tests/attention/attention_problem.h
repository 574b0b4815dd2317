// attention_problem.h - random ragged lanes in any row format for the CPU's attention kernel, run with std::thread, and plain
// f64 code over the values that the rows really hold.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "attention/rounding.h"
#include "ggml.h"

namespace pith::testing {

inline ggml_type to_ggml(KvFormat format) {
    constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
    return kTypes[static_cast<size_t>(format)];
}

// Rows in a K/V format, and what they hold.
struct Rows {
    std::vector<uint8_t> bytes;
    std::vector<float> values;
    size_t stride = 0;
};

inline std::vector<float> normal_values(size_t n, std::mt19937 & random) {
    std::normal_distribution<float> distribution;
    std::vector<float> values(n);
    for (float & value : values) { value = distribution(random); }
    return values;
}

inline Rows random_rows(KvFormat format, int n, int head_dim, std::mt19937 & random) {
    Rows rows;
    const ggml_type type = to_ggml(format);
    rows.stride = ggml_row_size(type, head_dim);
    const std::vector<float> from = normal_values(static_cast<size_t>(n * head_dim), random);
    rows.bytes.resize(rows.stride * static_cast<size_t>(n));
    rows.values.resize(from.size());
    if (head_dim == 0) { return rows; }
    if (format == KvFormat::kF32) {
        std::memcpy(rows.bytes.data(), from.data(), rows.bytes.size());
        rows.values = from;
        return rows;
    }
    ggml_quantize_chunk(type, from.data(), rows.bytes.data(), 0, n, head_dim, nullptr);
    ggml_get_type_traits(type)->to_float(rows.bytes.data(), rows.values.data(), n * head_dim);
    return rows;
}

struct Case {
    KvFormat k = KvFormat::kF32;
    KvFormat v = KvFormat::kF32;
    int head_dim = 64;
    int head_dim_v = 64;  // 0: no values, no output
    int n_group = 1;
    int n_queries = 1;
    std::vector<int> lengths = {100};
    bool evicted = false;  // positions with gaps, queries anywhere among them
    int n_threads = 2;
};

inline std::string describe(const Case & c) {
    std::string text = std::string(ggml_type_name(to_ggml(c.k))) + "/" + ggml_type_name(to_ggml(c.v)) +
                       " d=" + std::to_string(c.head_dim) + "/" + std::to_string(c.head_dim_v) +
                       " G=" + std::to_string(c.n_group) + " n=" + std::to_string(c.n_queries) + (c.evicted ? " evicted" : "") +
                       " threads=" + std::to_string(c.n_threads) + " lanes";
    for (const int length : c.lengths) { text += " " + std::to_string(length); }
    return text;
}

// What rounding may cost, as a share of the largest result.
inline double tolerance(const Case & c) {
    return attention_rounding(c.k, c.v, c.head_dim, c.n_group * c.n_queries, c.head_dim_v > 0);
}

class Problem {
public:
    Problem(const Case & c, uint32_t seed) : c_(c), random_(seed) {
        task_.k_format = c.k;
        task_.v_format = c.v;
        task_.head_dim = c.head_dim;
        task_.head_dim_v = c.head_dim_v;
        task_.n_group = c.n_group;
        task_.n_queries = c.n_queries;
        task_.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
        const size_t n_lanes = c.lengths.size();
        const size_t n_heads = n_lanes * static_cast<size_t>(c.n_group);
        task_.q_head_stride = static_cast<size_t>(c.head_dim);
        task_.q_query_stride = n_heads * task_.q_head_stride + 3;  // rows need not touch
        task_.out_head_stride = static_cast<size_t>(c.head_dim_v);
        task_.out_query_stride = n_heads * task_.out_head_stride + 5;
        q_ = normal(static_cast<size_t>(c.n_queries) * task_.q_query_stride);
        out_.assign(static_cast<size_t>(c.n_queries) * task_.out_query_stride, NAN);
        log_sums_.assign(static_cast<size_t>(c.n_queries) * n_heads, NAN);
        k_.resize(n_lanes);
        v_.resize(n_lanes);
        positions_.resize(n_lanes);
        lanes_.resize(n_lanes);
        const int longest = *std::max_element(c.lengths.begin(), c.lengths.end());
        for (int t = 0; t < c.n_queries; ++t) { query_positions_.push_back(3 * longest / 2 + 2 * t - c.n_queries); }
        for (size_t l = 0; l < n_lanes; ++l) {
            const int length = c.lengths[l];
            k_[l] = rows(c.k, length, c.head_dim);
            v_[l] = rows(c.v, length, c.head_dim_v);
            int32_t position = static_cast<int32_t>(random_() % 3);
            for (int i = 0; i < length; ++i, position += 1 + static_cast<int32_t>(random_() % 3)) {
                positions_[l].push_back(position);
            }
            LaneView & lane = lanes_[l];
            lane.k = k_[l].bytes.data();
            lane.v = v_[l].bytes.data();
            lane.length = length;
            lane.q = q_.data() + l * static_cast<size_t>(c.n_group) * task_.q_head_stride;
            lane.out = out_.data() + l * static_cast<size_t>(c.n_group) * task_.out_head_stride;
            lane.log_sum = log_sums_.data() + l * static_cast<size_t>(c.n_queries * c.n_group);
            if (c.evicted) {
                lane.positions = positions_[l].data();
                lane.query_positions = query_positions_.data();
            }
            task_.k_stride = k_[l].stride;
            task_.v_stride = v_[l].stride;
        }
        task_.lanes = lanes_;
    }

    // Lane `to` begins with n entries of lane `from`, in memory of its own, and says so.
    void share(size_t from, size_t to, int n, uint64_t base) {
        const auto copy = [n](const Rows & source, Rows & rows, int width) {
            std::copy_n(source.bytes.begin(), static_cast<size_t>(n) * rows.stride, rows.bytes.begin());
            std::copy_n(source.values.begin(), n * width, rows.values.begin());
        };
        copy(k_[from], k_[to], c_.head_dim);
        copy(v_[from], v_[to], c_.head_dim_v);
        task_.lanes[to].base = base;
        task_.lanes[to].n_shared = n;
    }

    void run(AttentionPlan & plan, AttentionScratch & scratch) {
        plan.task = task_;  // its columns too
        plan.make();
        scratch.reserve(plan);
        std::vector<std::thread> threads;
        for (int i = 1; i < c_.n_threads; ++i) {
            threads.emplace_back([&, i] { attend_part(plan, scratch, i, c_.n_threads); });
        }
        attend_part(plan, scratch, 0, c_.n_threads);
        for (std::thread & thread : threads) { thread.join(); }
    }

    // Largest error relative to the largest output.
    double error() const {
        double worst = 0;
        double largest = 1e-30;
        for (size_t l = 0; l < lanes_.size(); ++l) {
            for (int t = 0; t < c_.n_queries; ++t) {
                for (int g = 0; g < c_.n_group; ++g) { add_row(l, t, g, worst, largest); }
            }
        }
        return worst / largest;
    }

    const std::vector<float> & out() const { return out_; }
    AttentionTask & task() { return task_; }
    const Case & shape() const { return c_; }

    // What query t of head g pays to the entries of lane l.
    std::vector<double> probabilities(size_t l, int t, int g) const {
        const float * q = query(l, t, g);
        const double shift = largest_score(l, t, q);
        std::vector<double> row(static_cast<size_t>(c_.lengths[l]), 0.0);
        double sum = 0;
        for (int j = 0; j < c_.lengths[l]; ++j) {
            if (sees(l, t, j)) { sum += row[static_cast<size_t>(j)] = std::exp(score(l, j, q) - shift); }
        }
        for (double & one : row) { one /= sum > 0 ? sum : 1.0; }
        return row;
    }
    float & query_number(size_t l, int t, int g, int c) {
        return q_[static_cast<size_t>(query(l, t, g) - q_.data()) + static_cast<size_t>(c)];
    }
    std::span<const float> out_of(size_t l, int t, int g) const {
        const auto dv = static_cast<size_t>(c_.head_dim_v);
        return {lanes_[l].out + static_cast<size_t>(t) * task_.out_query_stride + static_cast<size_t>(g) * dv, dv};
    }
    void scale_queries(float factor) {
        for (float & value : q_) { value *= factor; }
        check_log_sums_ = false;
    }

private:
    std::vector<float> normal(size_t n) { return normal_values(n, random_); }
    Rows rows(KvFormat format, int n, int head_dim) { return random_rows(format, n, head_dim, random_); }

    bool sees(size_t l, int t, int j) const {
        return c_.evicted ? positions_[l][static_cast<size_t>(j)] <= query_positions_[static_cast<size_t>(t)]
                          : j <= c_.lengths[l] - c_.n_queries + t;
    }

    const float * query(size_t l, int t, int g) const {
        return lanes_[l].q + static_cast<size_t>(t) * task_.q_query_stride + static_cast<size_t>(g * c_.head_dim);
    }

    double score(size_t l, int j, const float * q) const {
        const auto d = static_cast<size_t>(c_.head_dim);
        double dot = 0;
        for (size_t c = 0; c < d; ++c) { dot += static_cast<double>(q[c]) * k_[l].values[static_cast<size_t>(j) * d + c]; }
        return dot / std::sqrt(static_cast<double>(d));
    }

    double largest_score(size_t l, int t, const float * q) const {
        double largest = -INFINITY;
        for (int j = 0; j < c_.lengths[l]; ++j) {
            if (sees(l, t, j)) { largest = std::max(largest, score(l, j, q)); }
        }
        return largest;
    }

    void add_row(size_t l, int t, int g, double & worst, double & largest) const {
        const auto dv = static_cast<size_t>(c_.head_dim_v);
        const float * q = query(l, t, g);
        const float * out = lanes_[l].out + static_cast<size_t>(t) * task_.out_query_stride + static_cast<size_t>(g) * dv;
        std::vector<double> expected(dv, 0.0);
        // Any shift leaves the result as it is; this one keeps large scores finite.
        const double shift = check_log_sums_ ? 0.0 : largest_score(l, t, q);
        double sum = 0;
        for (int j = 0; j < c_.lengths[l]; ++j) {
            if (!sees(l, t, j)) { continue; }
            const double weight = std::exp(score(l, j, q) - shift);
            sum += weight;
            for (size_t c = 0; c < dv; ++c) { expected[c] += weight * v_[l].values[static_cast<size_t>(j) * dv + c]; }
        }
        for (size_t c = 0; c < dv; ++c) {
            const double value = sum > 0 ? expected[c] / sum : 0.0;
            ASSERT_FALSE(std::isnan(out[c])) << "lane " << l << " query " << t << " head " << g;
            worst = std::max(worst, std::abs(out[c] - value));
            largest = std::max(largest, std::abs(value));
        }
        if (sum > 0 && check_log_sums_) {
            const float got = lanes_[l].log_sum[static_cast<size_t>(t * c_.n_group + g)];
            EXPECT_NEAR(got, std::log(sum), 2 * tolerance(c_)) << "lane " << l << " query " << t << " head " << g;
        }
    }

    Case c_;
    std::mt19937 random_;
    AttentionTask task_;
    std::vector<float> q_;
    std::vector<float> out_;
    std::vector<float> log_sums_;
    std::vector<Rows> k_;
    std::vector<Rows> v_;
    std::vector<std::vector<int32_t>> positions_;
    std::vector<int32_t> query_positions_;
    std::vector<LaneView> lanes_;
    bool check_log_sums_ = true;
};

}  // namespace pith::testing
