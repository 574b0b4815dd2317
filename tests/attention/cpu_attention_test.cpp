// cpu_attention_test.cpp - the CPU's attention kernel against plain f64 code: random ragged lanes, every row format, every
// instruction set of this machine, with one thread and with several.
#include "attention/cpu_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>

#include "ggml.h"

namespace pith {
namespace {

ggml_type to_ggml(KvFormat format) {
    constexpr ggml_type kTypes[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
    return kTypes[static_cast<size_t>(format)];
}

// Rows in a K/V format, and what they hold.
struct Rows {
    std::vector<uint8_t> bytes;
    std::vector<float> values;
    size_t stride = 0;
};

struct Case {
    KvFormat k = KvFormat::kF32;
    KvFormat v = KvFormat::kF32;
    int head_dim = 64;
    int head_dim_v = 64;
    int n_group = 1;
    int n_queries = 1;
    std::vector<int> lengths = {100};
    bool evicted = false;  // positions with gaps, queries anywhere among them
    int n_threads = 2;
};

std::string describe(const Case & c) {
    std::string text = std::string(ggml_type_name(to_ggml(c.k))) + "/" + ggml_type_name(to_ggml(c.v)) +
                       " d=" + std::to_string(c.head_dim) + "/" + std::to_string(c.head_dim_v) +
                       " G=" + std::to_string(c.n_group) + " n=" + std::to_string(c.n_queries) + (c.evicted ? " evicted" : "") +
                       " threads=" + std::to_string(c.n_threads) + " lanes";
    for (const int length : c.lengths) { text += " " + std::to_string(length); }
    return text;
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

    void run(AttentionPlan & plan, AttentionScratch & scratch) {
        plan.task = task_;
        plan.make();
        scratch.reserve(plan);
        std::vector<std::thread> threads;
        for (int i = 1; i < c_.n_threads; ++i) {
            threads.emplace_back([&plan, &scratch, i] { attend_part(plan, scratch, i); });
        }
        attend_part(plan, scratch, 0);
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
    void scale_queries(float factor) {
        for (float & value : q_) { value *= factor; }
        check_log_sums_ = false;
    }

private:
    std::vector<float> normal(size_t n) {
        std::normal_distribution<float> distribution;
        std::vector<float> values(n);
        for (float & value : values) { value = distribution(random_); }
        return values;
    }

    Rows rows(KvFormat format, int n, int head_dim) {
        Rows rows;
        const ggml_type type = to_ggml(format);
        rows.stride = ggml_row_size(type, head_dim);
        const std::vector<float> from = normal(static_cast<size_t>(n * head_dim));
        rows.bytes.resize(rows.stride * static_cast<size_t>(n));
        rows.values.resize(from.size());
        if (format == KvFormat::kF32) {
            std::memcpy(rows.bytes.data(), from.data(), rows.bytes.size());
            rows.values = from;
            return rows;
        }
        ggml_quantize_chunk(type, from.data(), rows.bytes.data(), 0, n, head_dim, nullptr);
        ggml_get_type_traits(type)->to_float(rows.bytes.data(), rows.values.data(), n * head_dim);
        return rows;
    }

    bool sees(size_t l, int t, int j) const {
        return c_.evicted ? positions_[l][static_cast<size_t>(j)] <= query_positions_[static_cast<size_t>(t)]
                          : j <= c_.lengths[l] - c_.n_queries + t;
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
        const auto d = static_cast<size_t>(c_.head_dim);
        const auto dv = static_cast<size_t>(c_.head_dim_v);
        const float * q = lanes_[l].q + static_cast<size_t>(t) * task_.q_query_stride + static_cast<size_t>(g) * d;
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
            EXPECT_NEAR(got, std::log(sum), 2e-5) << "lane " << l << " query " << t << " head " << g;
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

// Every format against the values that the rows really hold.
constexpr double kTolerance = 1e-5;

class CpuAttentionTest : public testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }
    void check(const Case & c) {
        SCOPED_TRACE(describe(c));
        Problem problem(c, ++seed_);
        problem.run(plan_, scratch_);
        EXPECT_LE(problem.error(), kTolerance);
    }

    AttentionPlan plan_;  // one for all: it must not remember
    AttentionScratch scratch_;
    uint32_t seed_ = 0;
};

TEST_P(CpuAttentionTest, DecodesEveryFormatAndGroupSize) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (int n_group = 1; n_group <= 8; ++n_group) {
            check({format, format, 64, 64, n_group, 1, {1, 63, 700, 64, 130}, false, 2});
        }
    }
}

TEST_P(CpuAttentionTest, DecodesEveryHeadSize) {
    for (const int head_dim : {32, 64, 80, 96, 128, 256}) {
        for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
            if (!can_attend(format, format, head_dim, head_dim)) {
                EXPECT_EQ(head_dim, 80);
                continue;
            }
            check({format, format, head_dim, head_dim, 3, 1, {257, 5}, false, 2});
        }
    }
    check({KvFormat::kF32, KvFormat::kQ4_0, 80, 32, 4, 1, {200}, false, 1});
}

TEST_P(CpuAttentionTest, PrefillsEveryFormatAndHeadSize) {
    for (const KvFormat format : {KvFormat::kF32, KvFormat::kF16, KvFormat::kBF16, KvFormat::kQ8_0, KvFormat::kQ4_0}) {
        for (const int head_dim : {32, 64, 80, 96, 128}) {
            if (!can_attend(format, format, head_dim, head_dim)) { continue; }
            check({format, format, head_dim, head_dim, 4, 37, {37, 190}, false, 2});
        }
    }
    check({KvFormat::kF16, KvFormat::kQ8_0, 96, 64, 4, 50, {200}, false, 1});
}

TEST_P(CpuAttentionTest, PrefillsEveryGroupSize) {
    for (int n_group = 1; n_group <= 8; ++n_group) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 32, n_group, 70, {70, 333}, false, 3});
    }
}

TEST_P(CpuAttentionTest, RespectsPositionsAfterEviction) {
    for (const int n_queries : {1, 2, 5, 9, 64, 150}) {
        check({KvFormat::kF32, KvFormat::kF32, 32, 32, 2, n_queries, {40, 9, 200, 1}, true, 2});
        check({KvFormat::kF16, KvFormat::kBF16, 64, 32, 3, n_queries, {150, 90}, true, 2});
    }
}

TEST_P(CpuAttentionTest, FillsAllThreadsWithOneLongLane) {
    check({KvFormat::kF32, KvFormat::kF32, 32, 32, 4, 1, {9000}, false, 4});
    check({KvFormat::kF32, KvFormat::kF32, 32, 32, 4, 30, {5000}, false, 4});
    check({KvFormat::kQ8_0, KvFormat::kQ4_0, 32, 32, 1, 4, {5000, 3}, false, 4});
}

TEST_P(CpuAttentionTest, ResultDoesNotDependOnTheNumberOfThreads) {
    for (const int n_queries : {1, 40}) {
        Case c{KvFormat::kF16, KvFormat::kF16, 64, 64, 4, n_queries, {3000, 50, 700}, false, 1};
        Problem alone(c, 5);
        alone.run(plan_, scratch_);
        c.n_threads = 3;
        Problem together(c, 5);
        together.run(plan_, scratch_);
        for (size_t i = 0; i < alone.out().size(); ++i) {
            if (!std::isnan(alone.out()[i])) { ASSERT_EQ(alone.out()[i], together.out()[i]) << i; }
        }
    }
}

TEST_P(CpuAttentionTest, RandomRaggedShapes) {
    std::mt19937 random(77);
    const auto pick = [&random](int low, int high) {
        return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    for (int i = 0; i < 40; ++i) {
        Case c;
        c.k = static_cast<KvFormat>(pick(0, 4));
        c.v = static_cast<KvFormat>(pick(0, 4));
        c.head_dim = 32 * pick(1, 4);
        c.head_dim_v = 32 * pick(1, 4);
        c.n_group = pick(1, 8);
        c.evicted = pick(0, 1) == 1;
        c.n_queries = pick(0, 2) == 0 ? pick(1, 90) : pick(1, 3);
        c.lengths.clear();
        for (int l = pick(1, 5); l > 0; --l) { c.lengths.push_back(c.n_queries + pick(0, 400)); }
        c.n_threads = pick(1, 3);
        check(c);
    }
}

TEST(CpuAttention, LargeScoresDoNotOverflow) {
    Case c{KvFormat::kF32, KvFormat::kF32, 32, 32, 2, 1, {300}, false, 1};
    for (const int n_queries : {1, 40}) {
        c.n_queries = n_queries;
        Problem problem(c, 3);
        AttentionPlan plan;
        AttentionScratch scratch;
        problem.scale_queries(200.0F);
        problem.run(plan, scratch);
        EXPECT_LE(problem.error(), 1e-3);  // scores of about 1000: their own rounding is 1e-4
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuAttentionTest, testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith
