// bucket_observe_test.cpp - what the queries of several sequences pay to lanes in buckets, in one graph, against plain f64
// code, over the CPU's back end; and how few operations that takes.
#include "evidence/bucket_observe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "device/backend.h"
#include "device/lane_device.h"

namespace pith::bucket_observe_test {
namespace {

constexpr int kLanes = 3;
constexpr int kGroup = 2;
constexpr int kDim = 32;
constexpr int kHeads = kLanes * kGroup;
constexpr int kNewest = 700;  // the position behind all entries

struct SequenceCase {
    std::vector<int> lengths;  // [lane]
    int n_queries;
    ObserveWants wants;
    bool skips = false;  // every second position alone: queries do not see an entry more each
};

class BucketObserve : public ::testing::Test {
protected:
    struct One {
        SequenceCase of;
        std::unique_ptr<RaggedCache> cache;
        std::vector<float> keys;     // [lane][entry][d]
        std::vector<float> queries;  // [n][H][d]
        std::vector<int32_t> positions;
        Observed observed;
    };

    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        backend_.reset(make_cpu_backend(2).value());
        runner_ = std::make_unique<GraphRunner>(backend_.get());
        layout_.shape = {1, kLanes, kGroup, kDim};
        layout_.head_dim_v = kDim;
        layout_.attention_scale = usual_attention_scale(kDim);
        layout_.type_k = layout_.type_v = GGML_TYPE_F32;
        layout_.devices = {LaneDevice::make(cpu_device()).value()};
    }

    float number() { return std::normal_distribution<float>()(random_); }

    One make(const SequenceCase & of) {
        One one{of, RaggedCache::make(layout_, 8).value(), {}, {}, {}, {}};
        const int longest = *std::ranges::max_element(of.lengths);
        std::vector<int32_t> positions;
        for (int i = longest - 1; i >= 0; --i) { positions.push_back(kNewest - 1 - (of.skips ? 2 * i : i)); }
        EXPECT_TRUE(one.cache->reserve(0, 0, longest).ok());
        one.cache->append(0, 0, positions);
        Ragged<int32_t> keep;  // the newest of each lane
        std::vector<int32_t> all(positions.size());
        std::iota(all.begin(), all.end(), 0);
        for (const int n : of.lengths) { keep.push_row(std::span(all).last(static_cast<size_t>(n))); }
        one.cache->compact(0, 0, keep);
        for (int i = of.n_queries - 1; i >= 0; --i) { one.positions.push_back(kNewest - 1 - i); }
        one.queries.resize(static_cast<size_t>(of.n_queries * kHeads * kDim));
        for (float & value : one.queries) { value = number(); }
        return one;
    }

    void write_keys(One & one) {
        for (int lane = 0; lane < kLanes; ++lane) {
            for (int i = 0; i < one.of.lengths[static_cast<size_t>(lane)]; ++i) {
                std::vector<float> row(kDim);
                for (float & value : row) { value = number(); }
                const auto at = static_cast<size_t>(one.cache->cell(0, 0, lane, i)) * kDim * sizeof(float);
                ggml_backend_tensor_set(one.cache->k(0), row.data(), at, kDim * sizeof(float));
                one.keys.insert(one.keys.end(), row.begin(), row.end());
            }
        }
    }

    // All of these in one graph.
    void observe(std::vector<One> & all) {
        std::vector<RaggedCache *> caches;
        for (One & one : all) { caches.push_back(one.cache.get()); }
        ASSERT_TRUE(RaggedCache::reserve_together(caches, 0).value());
        std::vector<ObserveTask> tasks;
        for (One & one : all) {
            write_keys(one);
            tasks.push_back({one.cache.get(), 0, one.queries.data(), one.positions, one.of.wants, &one.observed});
        }
        const Status status = observe_together(*runner_, 0, tasks);
        ASSERT_TRUE(status.ok()) << status.message();
    }

    void expect_right(const One & one) const {
        size_t first_key = 0;
        for (int lane = 0; lane < kLanes; ++lane) {
            const auto positions = one.cache->positions(one.cache->lane(0, 0, lane));
            const size_t n = positions.size();
            std::vector<double> group_sq(n);
            std::vector<std::vector<double>> sums(kGroup, std::vector<double>(n)), squares = sums, last = sums;
            for (int i = 0; i < one.of.n_queries; ++i) {
                std::vector<double> mean(n);
                for (int g = 0; g < kGroup; ++g) {
                    const float * q = one.queries.data() + (i * kHeads + lane * kGroup + g) * kDim;
                    std::vector<double> p(n);
                    double all = 0;
                    for (size_t j = 0; j < n; ++j) {
                        const float * k = one.keys.data() + (first_key + j) * kDim;
                        double score = layout_.attention_scale * std::inner_product(q, q + kDim, k, 0.0);
                        if (const double cap = layout_.attention_softcap; cap != 0) { score = cap * std::tanh(score / cap); }
                        p[j] = positions[j] <= one.positions[static_cast<size_t>(i)] ? std::exp(score) : 0;
                        all += p[j];
                    }
                    for (size_t j = 0; j < n && all > 0; ++j) {
                        p[j] /= all;
                        sums[static_cast<size_t>(g)][j] += p[j];
                        squares[static_cast<size_t>(g)][j] += p[j] * p[j];
                        mean[j] += p[j] / kGroup;
                    }
                    last[static_cast<size_t>(g)] = p;
                }
                for (size_t j = 0; j < n; ++j) { group_sq[j] += mean[j] * mean[j]; }
            }
            const auto near = [&](std::span<const float> got, const std::vector<double> & expected, const char * what) {
                ASSERT_EQ(got.size(), n);
                for (size_t j = 0; j < n; ++j) { ASSERT_NEAR(got[j], expected[j], 2e-5) << what << ", entry " << j; }
            };
            const ObserveWants & wants = one.of.wants;
            for (int g = 0; g < kGroup; ++g) {
                const int head = lane * kGroup + g;
                const auto of = static_cast<size_t>(g);
                if (wants.column_sum) { near(one.observed.column_sum.row(head), sums[of], "sums"); }
                if (wants.head_sq) { near(one.observed.head_sq.row(head), squares[of], "squares"); }
                if (wants.last) { near(one.observed.last.row(head), last[of], "the last"); }
            }
            if (wants.group_sq) { near(one.observed.group_sq.row(lane), group_sq, "squares of means"); }
            first_key += n;
        }
    }

    OwnedBackend backend_;
    std::unique_ptr<GraphRunner> runner_;
    CacheLayout layout_;
    std::mt19937 random_{11};
};

const ObserveWants kSums{.column_sum = true};
const ObserveWants kLast{.last = true};
const ObserveWants kAll{.column_sum = true, .group_sq = true, .last = true, .head_sq = true};

TEST_F(BucketObserve, EqualsPlainCodeForSequencesTogether) {
    const std::vector<std::vector<SequenceCase>> cases = {
        {{{300, 300, 300}, 8, kSums}, {{310, 310, 310}, 8, kSums}},
        {{{300, 301, 302}, 8, kAll}, {{260, 500, 420}, 8, kAll}, {{20, 300, 9}, 8, kAll}},
        {{{300, 200, 40}, 1, kLast}, {{300, 30, 50}, 16, kLast}},
        {{{400, 200, 130}, 100, kAll}, {{400, 390, 101}, 100, kSums}},  // several blocks of queries
        {{{300, 40, 300}, 32, kAll}, {{300, 6, 300}, 32, kAll}},        // a lane shorter than the window
        {{{300, 200, 100}, 8, kAll, true}, {{300, 200, 100}, 8, kAll}},
    };
    for (const float softcap : {0.0F, 3.0F}) {
        layout_.attention_softcap = softcap;
        for (const auto & sequences : cases) {
            SCOPED_TRACE(::testing::Message() << "softcap " << softcap << ", case " << &sequences - cases.data());
            std::vector<One> all;
            for (const SequenceCase & of : sequences) { all.push_back(make(of)); }
            observe(all);
            for (const One & one : all) { expect_right(one); }
        }
    }
}

TEST_F(BucketObserve, AsksForLanesThatSeeOneEntryMoreWithEachQueryAlone) {
    const auto serves = [&](const SequenceCase & of) {
        One one = make(of);
        return BucketObservation::serves({one.cache.get(), 0, one.queries.data(), one.positions, one.of.wants, nullptr}, 0);
    };
    EXPECT_TRUE(serves({{300, 301, 32}, 32, kAll}));
    EXPECT_FALSE(serves({{300, 301, 31}, 32, kAll}));
    EXPECT_FALSE(serves({{300, 300, 300}, 8, kAll, true}));
    EXPECT_TRUE(serves({{300, 300, 300}, 1, kAll, true}));
    EXPECT_FALSE(serves({{300, 300, 300}, 8, {.column_max = true}}));
    EXPECT_FALSE(serves({{300, 300, 300}, 8, {.rows = true}}));
}

// However many lanes and sequences there are.
TEST_F(BucketObserve, OperationsDoNotGrowWithSequences) {
    const auto n_nodes = [&](int n_sequences) {
        std::vector<One> all;
        for (int i = 0; i < n_sequences; ++i) { all.push_back(make({{300 + i, 301 + 2 * i, 302}, 8, kAll})); }
        observe(all);
        std::vector<ObserveTask> tasks;
        std::vector<const ObserveTask *> pointers;
        for (One & one : all) {
            tasks.push_back({one.cache.get(), 0, one.queries.data(), one.positions, one.of.wants, &one.observed});
        }
        for (const ObserveTask & task : tasks) { pointers.push_back(&task); }
        BucketObservation together(pointers, 0);
        GraphBuild * build = runner_->begin(together.n_nodes() + 16).value();
        together.add(*build);
        return ggml_graph_n_nodes(build->graph());
    };
    const int of_one = n_nodes(1);
    EXPECT_LE(of_one, 48 + 2 * kGroup);
    EXPECT_EQ(n_nodes(9), of_one);
}

// Of buckets in this machine's memory its processor computes what queries pay, as of pages.
TEST_F(BucketObserve, BucketsOfTheCpusAreNotObservedThere) {
    One one = make({{40, 30, 20}, 4, {.column_sum = true}});
    EXPECT_TRUE(one.cache->in_buckets(0));
    EXPECT_FALSE(is_observed_there(*one.cache, 0));
    EXPECT_FALSE(is_observed_there(*RaggedCache::make(layout_, 8).value(), 0)) << "without cells";
}

}  // namespace
}  // namespace pith::bucket_observe_test
