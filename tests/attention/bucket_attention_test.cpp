// bucket_attention_test.cpp - attention over lanes in buckets against plain f64 code, over the CPU's back end: lanes that are
// as long share one mask, others have theirs, and it makes no difference to what comes out.
#include "attention/bucket_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "device/backend.h"
#include "device/lane_device.h"

namespace pith::bucket_attention_test {
namespace {

constexpr int kLanes = 4;
constexpr int kGroup = 2;
constexpr int kDim = 32;
constexpr int kHeads = kLanes * kGroup;
constexpr int kMost = 700;

// Of one flash attention: its lanes, as KV heads and as sequences, and its masks.
struct Form {
    int64_t heads = 0;
    int64_t sequences = 0;
    int64_t masks = 0;
    bool operator==(const Form &) const = default;
};
void PrintTo(const Form & form, std::ostream * out) {
    *out << form.heads << " heads of " << form.sequences << " sequences, " << form.masks << " masks";
}

// The CPU's back end, whose memory ends when a test says so.
class FullDevice : public LaneDevice {
public:
    static std::shared_ptr<FullDevice> make() {
        return std::shared_ptr<FullDevice>(new FullDevice(OwnedBackend(make_device_backend(cpu_device()).value())));
    }
    ggml_backend_buffer_t allocate(ggml_context * tensors) override {
        return is_full ? nullptr : LaneDevice::allocate(tensors);
    }
    bool is_full = false;

private:
    explicit FullDevice(OwnedBackend backend) : LaneDevice(cpu_device(), "full", std::move(backend)) {}
};

class BucketAttention : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(load_backends().ok());
        backend_.reset(make_cpu_backend(2).value());
        runner_ = std::make_unique<GraphRunner>(backend_.get());
        layout_.shape = {1, kLanes, kGroup, kDim};
        layout_.head_dim_v = kDim;
        layout_.attention_scale = usual_attention_scale(kDim);
        layout_.type_k = layout_.type_v = GGML_TYPE_F32;
        device_ = FullDevice::make();
        layout_.devices = {device_};
        std::normal_distribution<float> normal;
        for (auto * values : {&keys_, &values_}) {
            values->resize(static_cast<size_t>(kLanes * kMost * kDim));
            for (float & value : *values) { value = normal(random_); }
        }
        queries_.resize(static_cast<size_t>(kHeads * kMost * kDim));
        for (float & value : queries_) { value = normal(random_); }
    }

    static const float * row(const std::vector<float> & of, int lane, int64_t i) {
        return of.data() + (static_cast<size_t>(lane) * kMost + static_cast<size_t>(i)) * kDim;
    }

    // Lanes of these lengths, with room for n_more behind the longest, and the newest n queries of each: [n][H][d].
    std::vector<float> attend(const std::vector<int> & lengths, int n, int n_more = 0) {
        cache_ = RaggedCache::make(layout_, 8).value();
        std::vector<int32_t> positions(kMost);
        std::iota(positions.begin(), positions.end(), 0);
        EXPECT_TRUE(cache_->reserve(0, 0, kMost).ok());
        cache_->append(0, 0, positions);
        Ragged<int32_t> keep;
        for (const int length : lengths) { keep.push_row(std::span(positions).first(static_cast<size_t>(length))); }
        cache_->compact(0, 0, keep);
        EXPECT_TRUE(cache_->reserve(0, 0, n_more).ok());
        for (int lane = 0; lane < kLanes; ++lane) {
            for (int i = 0; i < lengths[static_cast<size_t>(lane)]; ++i) {
                const auto at = static_cast<size_t>(cache_->cell(0, 0, lane, i)) * kDim * sizeof(float);
                ggml_backend_tensor_set(cache_->k(0), row(keys_, lane, i), at, kDim * sizeof(float));
                ggml_backend_tensor_set(cache_->v(0), row(values_, lane, i), at, kDim * sizeof(float));
            }
        }
        const LanePart part{.cache = cache_.get(), .n = n};
        return attend_of(std::span(&part, 1), queries_, n);
    }

    // By the newest queries of these parts, n in all.
    std::vector<float> attend_of(std::span<const LanePart> parts, const std::vector<float> & queries, int64_t n) {
        GraphBuild * build = *runner_->begin(512);
        ggml_tensor * q = build->input(GGML_TYPE_F32, kDim * kHeads, n, queries.data());
        q = ggml_reshape_3d(build->ctx(), q, kDim, kHeads, n);
        std::vector<float> out(static_cast<size_t>(n * kHeads * kDim));
        build->output(attend_in_buckets(*build, parts, 0, q), out.data());
        forms_.clear();
        seen_.clear();
        std::set<const ggml_tensor *> inputs;
        for (int i = 0; i < ggml_graph_n_nodes(build->graph()); ++i) {
            const ggml_tensor * node = ggml_graph_node(build->graph(), i);
            for (const ggml_tensor * source : node->src) {
                if (source != nullptr && (source->flags & GGML_TENSOR_FLAG_INPUT) != 0) { inputs.insert(source); }
            }
            if (node->op != GGML_OP_FLASH_ATTN_EXT) { continue; }
            forms_.push_back({node->src[1]->ne[2], node->src[1]->ne[3], node->src[3]->ne[3]});
            seen_.push_back(node->src[1]->ne[1]);
            EXPECT_EQ(node->src[2]->ne[1], seen_.back());
            EXPECT_EQ(node->src[3]->ne[0], seen_.back());
            EXPECT_EQ(node->src[3]->ne[1], n / std::ssize(parts) * n_of_room_);
        }
        n_sent_ = 0;
        for (const ggml_tensor * input : inputs) { n_sent_ += ggml_nbytes(input); }
        const Status ran = runner_->run();
        EXPECT_TRUE(ran.ok()) << ran.message();
        return out;
    }

    // The same by the formula, of query t of a head.
    std::vector<double> plain(const std::vector<int> & lengths, int n, int t, int head) const {
        const int lane = head / kGroup;
        std::vector<int> all(static_cast<size_t>(lengths[static_cast<size_t>(lane)] - n + t + 1));
        std::iota(all.begin(), all.end(), 0);
        return plain_over(all, t, head);
    }
    std::vector<double> plain_over(const std::vector<int> & entries, int t, int head) const {
        const int lane = head / kGroup;
        const float * query = queries_.data() + static_cast<size_t>(t * kHeads + head) * kDim;
        std::vector<double> weights;
        for (const int j : entries) {
            double score = 0;
            for (int c = 0; c < kDim; ++c) { score += static_cast<double>(query[c]) * row(keys_, lane, j)[c]; }
            weights.push_back(std::exp(score / std::sqrt(kDim)));
        }
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        std::vector<double> out(kDim);
        for (size_t j = 0; j < entries.size(); ++j) {
            for (int c = 0; c < kDim; ++c) {
                out[static_cast<size_t>(c)] += weights[j] / sum * row(values_, lane, entries[j])[c];
            }
        }
        return out;
    }

    void expect_plain(const std::vector<int> & lengths, int n, const std::vector<float> & got) const {
        for (int t = 0; t < n; ++t) {
            for (int head = 0; head < kHeads; ++head) {
                const std::vector<double> expected = plain(lengths, n, t, head);
                const float * of = got.data() + static_cast<size_t>(t * kHeads + head) * kDim;
                for (size_t i = 0; i < kDim; ++i) { ASSERT_NEAR(of[i], expected[i], 1e-5) << t << ", " << head; }
            }
        }
    }

    OwnedBackend backend_;
    std::unique_ptr<GraphRunner> runner_;
    std::shared_ptr<FullDevice> device_;
    CacheLayout layout_;
    int64_t n_of_room_ = 1;  // sequences whose lanes share a room
    std::unique_ptr<RaggedCache> cache_;
    std::mt19937 random_{11};
    std::vector<float> keys_, values_;  // [lane][entry][d]
    std::vector<float> queries_;        // [token][H][d]
    std::vector<Form> forms_;           // of the last graph
    std::vector<int64_t> seen_;         // cells of a lane, of each of its flash attentions
    size_t n_sent_ = 0;                 // bytes of its inputs
};

TEST_F(BucketAttention, LanesOfOneLengthAreHeadsUnderOneMaskAndOthersHaveTheirs) {
    struct Case {
        std::vector<int> lengths;
        std::vector<Form> forms;
    };
    const std::vector<Case> cases = {{{300, 300, 300, 300}, {{4, 1, 1}}},
                                     {{300, 290, 300, 300}, {{1, 4, 4}}},             // in one room
                                     {{600, 200, 600, 200}, {{2, 1, 1}, {2, 1, 1}}},  // two rooms, the lanes not in order
                                     {{300, 300, 200, 600}, {{1, 1, 1}, {2, 1, 1}, {1, 1, 1}}},  // three
                                     {{600, 201, 590, 200}, {{1, 2, 2}, {1, 2, 2}}}};
    for (const Case & c : cases) {
        for (const int n : {1, 5, 40}) {
            SCOPED_TRACE(::testing::PrintToString(c.lengths) + ", " + std::to_string(n) + " queries");
            const std::vector<float> got = attend(c.lengths, n);
            EXPECT_EQ(forms_, c.forms);
            expect_plain(c.lengths, n, got);
        }
    }
}

// A token of each of several sequences, whose lanes lie together: those of one room are one attention, and what comes out is
// what each has alone.
TEST_F(BucketAttention, LanesOfSeveralSequencesAreOneAttentionForEachRoom) {
    struct Case {
        std::vector<std::vector<int>> lengths;  // [sequence][lane]
        std::vector<Form> forms;
    };
    const std::vector<Case> cases = {{{{300, 300, 300, 300}, {310, 310, 310, 310}, {299, 299, 299, 299}}, {{4, 3, 3}}},
                                     {{{300, 301, 302, 303}, {310, 311, 312, 313}}, {{1, 8, 8}}},
                                     {{{300, 200, 302, 100}, {310, 311, 312, 90}, {220, 470, 30, 400}}, {{1, 5, 5}, {1, 7, 7}}},
                                     {{{300, 300, 300, 300}, {310, 311, 312, 313}}, {{1, 4, 4}, {4, 1, 1}}},
                                     {{{600, 600, 600, 600}, {200, 200, 200, 200}, {600, 600, 600, 600}, {300, 301, 302, 303}},
                                      {{4, 1, 1}, {1, 4, 4}, {4, 2, 2}}}};
    for (const Case & c : cases) {
        SCOPED_TRACE(::testing::PrintToString(c.lengths));
        std::vector<std::unique_ptr<RaggedCache>> caches;
        std::vector<std::vector<float>> alone;
        for (const auto & lengths : c.lengths) {
            alone.push_back(attend(lengths, 1));
            caches.push_back(std::move(cache_));
        }
        std::vector<RaggedCache *> together;
        std::vector<LanePart> parts;
        for (const auto & cache : caches) {
            together.push_back(cache.get());
            parts.push_back({.cache = cache.get(), .first_row = static_cast<int>(parts.size()), .n = 1});
        }
        ASSERT_TRUE(RaggedCache::reserve_together(together, 0).value());
        const auto n = static_cast<int64_t>(parts.size());
        std::vector<float> of_all;  // the same query of each
        for (int64_t i = 0; i < n; ++i) { of_all.insert(of_all.end(), queries_.begin(), queries_.begin() + kHeads * kDim); }
        const std::vector<float> got = attend_of(parts, of_all, n);
        EXPECT_EQ(forms_, c.forms);
        for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_NEAR(got[i], alone[i / (kHeads * kDim)][i % (kHeads * kDim)], 1e-6) << i;
        }
    }
}

// A start that lies once, and each sequence's end behind it: whoever they are, they are queries of one attention, and see what
// each would see alone.
TEST_F(BucketAttention, SequencesThatShareAStartAreQueriesOfOneAttention) {
    struct Case {
        std::vector<int> lengths;  // of the start, [lane]
        bool evicts;               // one of them, where there is no memory
        std::vector<Form> forms;
    };
    for (const Case & c :
         {Case{{300, 300, 300, 300}, false, {{4, 1, 1}}}, Case{{300, 290, 300, 300}, false, {{1, 4, 4}}},
          Case{{100, 500, 100, 90}, false, {{1, 3, 3}, {1, 1, 1}}}, Case{{300, 300, 300, 300}, true, {{4, 1, 1}}}}) {
        SCOPED_TRACE(::testing::PrintToString(c.lengths) + (c.evicts ? ", one of them evicts" : ""));
        n_of_room_ = 1;
        attend(c.lengths, 1);
        ASSERT_TRUE(cache_->freeze(8).ok());
        const std::vector<int> n_own = {5, 9, 3};
        std::vector<std::unique_ptr<RaggedCache>> forks;
        std::vector<RaggedCache *> together;
        for (size_t i = 0; i < n_own.size(); ++i) {
            forks.push_back(cache_->fork().value());
            together.push_back(forks.back().get());
        }
        ASSERT_TRUE(RaggedCache::reserve_together(together, 10).value());
        std::vector<std::vector<std::vector<int>>> entries(n_own.size());  // [sequence][lane]: which rows of all
        for (size_t i = 0; i < n_own.size(); ++i) {
            std::vector<int32_t> positions(static_cast<size_t>(n_own[i]));
            std::iota(positions.begin(), positions.end(), 500);
            forks[i]->append(0, 0, positions);
            for (int lane = 0; lane < kLanes; ++lane) {
                const int n = c.lengths[static_cast<size_t>(lane)];
                std::vector<int> & of = entries[i].emplace_back(static_cast<size_t>(n));
                std::iota(of.begin(), of.end(), 0);
                for (int t = 0; t < n_own[i]; ++t) {
                    const int from = 520 + 20 * static_cast<int>(i) + t;
                    const auto to = static_cast<size_t>(forks[i]->cell(0, 0, lane, n + t)) * kDim * sizeof(float);
                    ggml_backend_tensor_set(forks[i]->k(0), row(keys_, lane, from), to, kDim * sizeof(float));
                    ggml_backend_tensor_set(forks[i]->v(0), row(values_, lane, from), to, kDim * sizeof(float));
                    of.push_back(from);
                }
            }
        }
        if (c.evicts) {
            device_->is_full = true;
            Ragged<int32_t> keep;
            for (int lane = 0; lane < kLanes; ++lane) {
                std::vector<int32_t> row;
                std::vector<int> of;
                for (int j = 0; j < 305; ++j) {
                    if (j >= 10 + 5 * lane && j < 40 + 5 * lane) { continue; }  // as many of each lane, and others
                    row.push_back(j);
                    of.push_back(entries[0][static_cast<size_t>(lane)][static_cast<size_t>(j)]);
                }
                keep.push_row(row);
                entries[0][static_cast<size_t>(lane)] = of;
            }
            forks[0]->compact(0, 0, keep);
            device_->is_full = false;
        }
        const auto expect = [&](size_t i, int n, int t, std::span<const float> got) {
            for (int head = 0; head < kHeads; ++head) {
                std::vector<int> seen = entries[i][static_cast<size_t>(head / kGroup)];
                seen.resize(seen.size() - static_cast<size_t>(n - 1 - t));
                const std::vector<double> expected = plain_over(seen, t, head);
                for (size_t k = 0; k < kDim; ++k) {
                    ASSERT_NEAR(got[static_cast<size_t>(head) * kDim + k], expected[k], 1e-5) << i << ", " << t << ", " << head;
                }
            }
        };
        std::vector<LanePart> parts;
        std::vector<float> of_all;  // the same query of each
        for (const auto & fork : forks) {
            parts.push_back({.cache = fork.get(), .first_row = static_cast<int>(parts.size()), .n = 1});
            of_all.insert(of_all.end(), queries_.begin(), queries_.begin() + kHeads * kDim);
        }
        if (c.evicts) {  // its lanes have masks of their own
            parts.erase(parts.begin());
            of_all.resize(2 * kHeads * kDim);
        }
        n_of_room_ = std::ssize(parts);
        const std::vector<float> got = attend_of(parts, of_all, std::ssize(parts));
        EXPECT_EQ(forms_, c.forms);
        for (size_t i = 0; i < parts.size(); ++i) {
            expect(i + forks.size() - parts.size(), 1, 0, std::span(got).subspan(i * kHeads * kDim, kHeads * kDim));
        }
        n_of_room_ = 1;
        for (size_t i = 0; i < forks.size(); ++i) {  // chunks of prompts behind it
            const int n = c.evicts ? 2 : n_own[i];
            const LanePart part{.cache = forks[i].get(), .n = n};
            const std::vector<float> of_chunk = attend_of(std::span(&part, 1), queries_, n);
            for (int t = 0; t < n; ++t) {
                expect(i, n, t, std::span(of_chunk).subspan(static_cast<size_t>(t) * kHeads * kDim, kHeads * kDim));
            }
            const LanePart one{.cache = forks[i].get(), .n = 1};
            expect(i, 1, 0, attend_of(std::span(&one, 1), queries_, 1));
        }
    }
}

// The last lane alone is shorter: the others have masks of their own for it, and the results that they had.
TEST_F(BucketAttention, WhetherAMaskIsSharedMakesNoDifference) {
    for (const int n : {1, 7, 40}) {
        SCOPED_TRACE(n);
        const std::vector<float> shared = attend({300, 300, 300, 300}, n);
        EXPECT_EQ(forms_.front().masks, 1);
        const std::vector<float> own = attend({300, 300, 300, 299}, n);
        EXPECT_EQ(forms_.front().masks, kLanes);
        for (int t = 0; t < n; ++t) {
            for (size_t i = 0; i < size_t{(kLanes - 1) * kGroup * kDim}; ++i) {
                const size_t at = static_cast<size_t>(t) * kHeads * kDim + i;
                ASSERT_NEAR(shared[at], own[at], 1e-6) << t << ", " << i;
            }
        }
    }
}

// A chunk of a prompt, in lanes that have room for all of it: what it attends to ends in the step in which the lanes end.
TEST_F(BucketAttention, AChunkSeesNoMoreOfTheRoomThanItMust) {
    struct Case {
        std::vector<int> lengths;
        std::vector<int64_t> seen;
    };
    for (const Case & c :
         {Case{{300, 300, 300, 300}, {512}}, Case{{256, 256, 256, 256}, {256}}, Case{{250, 100, 250, 90}, {256}}}) {
        for (const int n : {1, 5, 40}) {
            SCOPED_TRACE(::testing::PrintToString(c.lengths) + ", " + std::to_string(n) + " queries");
            const std::vector<float> got = attend(c.lengths, n, 1000);
            const int64_t room = cache_->buckets(0).front().room;
            ASSERT_GT(room, 1000);
            EXPECT_EQ(seen_, n > 1 ? c.seen : std::vector<int64_t>{room}) << "a token's graph must serve while lanes grow";
            EXPECT_LT(n > 1 ? n_sent_ : 0, 2U * kLanes * 512 + static_cast<size_t>(n) * 4096) << "its masks end there, too";
            expect_plain(c.lengths, n, got);
        }
    }
}

// A mask of 40 · 768 numbers for each of four lanes: what is sent is a line for each, the queries, and their order.
TEST_F(BucketAttention, MasksAreMadeOnTheDevice) {
    constexpr size_t kQueries = 40;
    attend({600, 601, 602, 603}, kQueries);
    EXPECT_EQ(forms_.front().masks, kLanes);
    const size_t lines = kLanes * (768 + kQueries - 1) * sizeof(ggml_fp16_t);
    const size_t orders = 2 * kQueries * kLanes * sizeof(int32_t);
    EXPECT_EQ(n_sent_, lines + orders + kQueries * kHeads * kDim * sizeof(float));
}

}  // namespace
}  // namespace pith::bucket_attention_test
