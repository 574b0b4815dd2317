// word_products_test.cpp - attention of prompts over 16-bit rows, beside f64: what the kernel rounds costs less than what the
// rows' own rounding to f16 did, every instruction set is within testing::kWordRounding of f32 products, and a row's result
// has the same bits whatever comes behind what it sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "attention/attention_problem.h"
#include "attention/cpu/cpu_attention.h"
#include "attention/rounding.h"

namespace pith::word_products_test {
namespace {

struct Numbers {
    const char * name;
    int head_dim;
    float query_size;     // times normal numbers: the larger, the fewer entries a query looks at
    float key_offset;     // added to one channel in eight of all keys, as a bias does
    float value_outlier;  // times one element in each row
    float sink_score;     // of entry 0 above the others; its value is small
};

constexpr int kEntries = 600;
constexpr int kQueries = 40;
constexpr int kGroup = 3;

class WordProductsTest : public ::testing::TestWithParam<const char *> {
protected:
    void SetUp() override { ASSERT_TRUE(use_cpu_attention_target(GetParam())); }
    void TearDown() override { use_cpu_attention_target(nullptr); }

    void make(const Numbers & of) {
        std::mt19937 random(11);
        dim_ = static_cast<size_t>(of.head_dim);
        k_ = testing::normal_values(kEntries * dim_, random);
        v_ = testing::normal_values(kEntries * dim_, random);
        q_ = testing::normal_values(kQueries * kGroup * dim_, random);
        for (float & one : q_) { one *= of.query_size; }
        for (size_t j = 0; j < kEntries; ++j) {
            for (size_t c = 0; c < dim_; c += 8) { k_[j * dim_ + c] += of.key_offset; }
            v_[j * dim_ + random() % dim_] *= of.value_outlier;
        }
        if (of.sink_score > 0) {
            // A channel of queries that only entry 0 answers.
            for (size_t r = 0; r < kQueries * kGroup; ++r) { q_[r * dim_ + 1] = 8.0F; }
            for (size_t j = 0; j < kEntries; ++j) { k_[j * dim_ + 1] = 0.0F; }
            k_[1] = of.sink_score / 8.0F * std::sqrt(static_cast<float>(dim_));
            for (size_t c = 0; c < dim_; ++c) { v_[c] *= 0.01F; }
        }
        k16_ = halves(k_, k_held_);
        v16_ = halves(v_, v_held_);
    }

    std::vector<ggml_fp16_t> halves(const std::vector<float> & from, std::vector<float> & held) const {
        std::vector<ggml_fp16_t> to(from.size());
        held.resize(from.size());
        ggml_fp32_to_fp16_row(from.data(), to.data(), static_cast<int64_t>(from.size()));
        ggml_fp16_to_fp32_row(to.data(), held.data(), static_cast<int64_t>(from.size()));
        return to;
    }

    // [query][head][dim]. log_sums [query][head]. positions: of the entries, all before the queries'; nullptr: the queries are
    // the newest entries'.
    std::vector<float> attend(int n_queries, int length, float * log_sums = nullptr,
                              const int32_t * positions = nullptr) const {
        std::vector<float> out(static_cast<size_t>(n_queries) * kGroup * dim_);
        AttentionPlan plan;
        AttentionScratch scratch;
        AttentionTask & task = plan.task;
        task.head_dim = task.head_dim_v = static_cast<int>(dim_);
        task.n_group = kGroup;
        task.n_queries = n_queries;
        task.scale = 1.0F / std::sqrt(static_cast<float>(dim_));
        task.k_stride = task.v_stride = dim_ * sizeof(ggml_fp16_t);
        task.q_head_stride = task.out_head_stride = dim_;
        task.q_query_stride = task.out_query_stride = kGroup * dim_;
        LaneView lane;
        lane.k = k16_.data();
        lane.v = v16_.data();
        lane.length = length;
        lane.q = q_.data();
        lane.out = out.data();
        lane.log_sum = log_sums;
        const std::vector<int32_t> behind(static_cast<size_t>(n_queries), kEntries);
        if (positions != nullptr) {
            lane.positions = positions;
            lane.query_positions = behind.data();
        }
        task.lanes = {lane};
        task.n_peers = 1000;  // one span for all entries, however many the queries
        plan.make();
        scratch.reserve(plan);
        attend_part(plan, scratch, 0, 1);
        return out;
    }

    std::vector<double> exact(const std::vector<float> & k, const std::vector<float> & v) const {
        std::vector<double> out;
        for (size_t row = 0; row < kQueries * kGroup; ++row) {
            const size_t seen = kEntries - kQueries + row / kGroup + 1;
            std::vector<double> scores(seen);
            double largest = -INFINITY;
            for (size_t j = 0; j < seen; ++j) {
                for (size_t c = 0; c < dim_; ++c) { scores[j] += double{q_[row * dim_ + c]} * double{k[j * dim_ + c]}; }
                scores[j] /= std::sqrt(static_cast<double>(dim_));
                largest = std::max(largest, scores[j]);
            }
            double sum = 0;
            std::vector<double> mean(dim_);
            for (size_t j = 0; j < seen; ++j) {
                const double weight = std::exp(scores[j] - largest);
                sum += weight;
                for (size_t c = 0; c < dim_; ++c) { mean[c] += weight * double{v[j * dim_ + c]}; }
            }
            for (const double one : mean) { out.push_back(one / sum); }
        }
        return out;
    }

    size_t dim_ = 0;
    std::vector<float> k_, v_, q_, k_held_, v_held_;
    std::vector<ggml_fp16_t> k16_, v16_;
};

template <class A>
double root_mean_square(const A & a, const std::vector<double> & b) {
    double squares = 0;
    for (size_t i = 0; i < b.size(); ++i) { squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]); }
    return std::sqrt(squares / static_cast<double>(b.size()));
}

TEST_P(WordProductsTest, CostLessThanTheRowsOwnRounding) {
    for (const Numbers & of : {
             Numbers{"even", 128, 0.1F, 0, 1, 0},
             Numbers{"normal", 128, 1, 0, 1, 0},
             Numbers{"heads of 64", 64, 1, 0, 1, 0},
             Numbers{"heads of 256", 256, 1, 0, 1, 0},
             Numbers{"heads of 512", 512, 1, 0, 1, 0},  // in f32
             Numbers{"few entries", 128, 6, 0, 1, 0},
             Numbers{"keys with a bias", 128, 1, 30, 1, 0},
             Numbers{"values with outliers", 128, 1, 0, 8, 0},
             Numbers{"a sink", 128, 1, 0, 1, 12},
         }) {
        SCOPED_TRACE(of.name);
        make(of);
        const std::vector<double> expected = exact(k_held_, v_held_);
        const double of_f16 = root_mean_square(exact(k_, v_), expected);
        const double of_kernel = root_mean_square(attend(kQueries, kEntries), expected);
        RecordProperty(std::string(of.name), std::to_string(of_kernel / of_f16));
        std::printf("%-22s f16's rounding %.2e, the kernel's %.2e\n", of.name, of_f16, of_kernel);
        EXPECT_LT(of_kernel, of_f16);
    }
}

// A row that sees one entry has its score for a sum.
TEST_P(WordProductsTest, AScoreIsOffByNoMoreThanKeysInF16Cost) {
    for (const Numbers & of : {Numbers{"normal", 128, 1, 0, 1, 0}, Numbers{"heads of 256", 256, 1, 0, 1, 0},
                               Numbers{"large", 64, 30, 0, 1, 0}, Numbers{"keys with a bias", 128, 1, 30, 1, 0}}) {
        SCOPED_TRACE(of.name);
        make(of);
        const int32_t position = 0;
        std::vector<float> scores(kQueries * kGroup);
        attend(kQueries, 1, scores.data(), &position);
        for (size_t row = 0; row < scores.size(); ++row) {
            double score = 0;
            double q = 0;
            double k = 0;
            for (size_t c = 0; c < dim_; ++c) {
                const double a = q_[row * dim_ + c];
                const double b = k_held_[c];
                score += a * b;
                q += a * a;
                k += b * b;
            }
            const double scale = 1 / std::sqrt(static_cast<double>(dim_));
            ASSERT_NEAR(scores[row], score * scale, testing::kWordRounding * std::sqrt(q * k) * scale) << "row " << row;
        }
    }
}

// Some instruction sets multiply in f32.
TEST_P(WordProductsTest, EqualsF32ProductsWithinTheBound) {
    make({"normal", 128, 1, 0, 1, 0});
    const std::vector<float> got = attend(kQueries, kEntries);
    const auto multiplies_floats = [](const char * target) {
        return use_cpu_attention_target(target) && !cpu_attention_multiplies_words(KvFormat::kF16, KvFormat::kF16, 128);
    };
    if (std::ranges::none_of(cpu_attention_targets(), multiplies_floats)) { GTEST_SKIP() << "all targets multiply words"; }
    const std::vector<float> expected = attend(kQueries, kEntries);
    const double most = testing::kWordRounding * double{*std::ranges::max_element(expected)};
    for (size_t i = 0; i < got.size(); ++i) { ASSERT_NEAR(got[i], expected[i], most) << i; }
}

TEST_P(WordProductsTest, WhatComesLaterChangesNoBit) {
    make({"normal", 128, 1, 0, 1, 0});
    const std::vector<float> all = attend(kQueries, kEntries);
    constexpr int kFewer = 23;  // queries; the entries end in the middle of a block
    const std::vector<float> alone = attend(kFewer, kEntries - kQueries + kFewer);
    EXPECT_EQ(std::memcmp(all.data(), alone.data(), alone.size() * sizeof(float)), 0);
    for (const float later : {1000.0F, NAN, INFINITY}) {
        // Products in f32 of such values with weights of 0 are none.
        const bool also_values = std::isfinite(later) || cpu_attention_multiplies_words(KvFormat::kF16, KvFormat::kF16, 128);
        for (size_t i = static_cast<size_t>(kEntries - kQueries + kFewer) * dim_; i < v16_.size(); ++i) {
            k16_[i] = ggml_fp32_to_fp16(later);
            if (also_values) { v16_[i] = k16_[i]; }
        }
        const std::vector<float> changed = attend(kQueries, kEntries);
        EXPECT_EQ(std::memcmp(all.data(), changed.data(), alone.size() * sizeof(float)), 0) << later;
        EXPECT_NE(std::memcmp(all.data(), changed.data(), all.size() * sizeof(float)), 0) << later;
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, WordProductsTest, ::testing::ValuesIn(cpu_attention_targets()),
                         [](const auto & target) { return std::string(target.param); });

}  // namespace
}  // namespace pith::word_products_test
