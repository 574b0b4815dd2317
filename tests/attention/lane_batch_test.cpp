// lane_batch_test.cpp - rows of several sequences in one batch: every output, and every entry written, has the bits that it has
// when its sequence is asked alone.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>

#include "attention/random_lanes.h"

namespace pith::lane_batch_test {
namespace {

using testing::RandomLanes;

struct BatchCase {
    ggml_type type;
    int n_kv_heads;
    int n_group;
    int head_dim;
};
void PrintTo(const BatchCase & c, std::ostream * out) {
    *out << ggml_type_name(c.type) << " K=" << c.n_kv_heads << " G=" << c.n_group << " d=" << c.head_dim;
}

struct Part {
    int n_first;  // tokens before, of which a third is evicted
    int n;        // rows
    bool sums;
};
constexpr std::array<Part, 6> kParts = {
    {{300, 1, false}, {1700, 1, false}, {90, 40, false}, {5, 1, true}, {700, 1, true}, {200, 9, true}}};

// A sequence, and what its queries' probabilities sum to.
struct Sequence {
    Sequence(const BatchCase & c, const Part & part)
        : lanes(c.type, c.n_kv_heads, c.n_group, c.head_dim, part.n_first, 3), n_first(part.n_first + 3) {
        std::vector<int32_t> positions(static_cast<size_t>(part.n));
        std::iota(positions.begin(), positions.end(), n_first);
        EXPECT_TRUE(lanes.cache().reserve(0, 0, part.n).ok());
        lanes.cache().append(0, 0, positions);
        for (int head = 0; head < lanes.shape().n_heads(); ++head) {
            sums.emplace_back(static_cast<size_t>(lanes.length(head / c.n_group)), 0.0F);
        }
    }
    LanePart part(int first_row, const Part & of) {
        LanePart part{&lanes.cache(), 0, first_row, of.n, {}, nullptr, nullptr};
        if (of.sums) {
            part.sums = [this](int, int head) {
                std::vector<float> & row = sums[static_cast<size_t>(head)];
                return ColumnSum{row.data(), row.size(), row.data()};
            };
        }
        return part;
    }
    std::vector<uint8_t> entries() {
        std::vector<uint8_t> bytes;
        for (const ggml_tensor * flat : {lanes.cache().k(0), lanes.cache().v(0)}) {
            for (int h = 0; h < lanes.shape().n_kv_heads; ++h) {
                const auto * begin = static_cast<const uint8_t *>(flat->data) +
                                     static_cast<size_t>(lanes.cache().cell(0, 0, h, 0)) * flat->nb[1];
                bytes.insert(bytes.end(), begin, begin + static_cast<size_t>(lanes.length(h)) * flat->nb[1]);
            }
        }
        return bytes;
    }
    RandomLanes lanes;
    int n_first;
    std::vector<std::vector<float>> sums;
};

class LaneBatchTest : public ::testing::TestWithParam<BatchCase> {
protected:
    // Rows [first, first + n) of the values, attended by the batch's parts.
    static std::vector<float> attend(GraphRunner & runner, const CacheShape & shape, LaneBatch batch, const float * q,
                                     const float * k, const float * v, int n) {
        GraphBuild * build = *runner.begin(1024);
        const auto input = [&](const float * values, int heads) {
            return ggml_reshape_3d(build->ctx(), build->input(GGML_TYPE_F32, int64_t{shape.head_dim} * heads, n, values),
                                   shape.head_dim, heads, n);
        };
        std::vector<float> out(static_cast<size_t>(n * shape.n_heads() * shape.head_dim));
        ggml_tensor * query = input(q, shape.n_heads());
        ggml_tensor * key = input(k, shape.n_kv_heads);
        ggml_tensor * value = input(v, shape.n_kv_heads);
        build->output(build_lane_attention(*build, std::make_shared<const LaneBatch>(std::move(batch)), 0, query, key, value),
                      out.data());
        EXPECT_TRUE(runner.run().ok());
        return out;
    }
};

TEST_P(LaneBatchTest, GivesEachPartTheBitsItHasAlone) {
    const BatchCase & c = GetParam();
    std::deque<Sequence> together;
    std::deque<Sequence> alone;
    LaneBatch batch;
    int n = 0;
    for (const Part & part : kParts) {
        together.emplace_back(c, part);
        alone.emplace_back(c, part);
        ASSERT_EQ(together.back().entries(), alone.back().entries());
        batch.parts.push_back(together.back().part(n, part));
        n += part.n;
    }
    const CacheShape & shape = together.front().lanes.shape();
    const auto width = [&](int heads) { return static_cast<size_t>(heads * shape.head_dim); };
    RandomLanes & source = together.front().lanes;
    const auto q = source.random_values(static_cast<size_t>(n) * width(shape.n_heads()));
    const auto k = source.random_values(static_cast<size_t>(n) * width(shape.n_kv_heads), 0.3F);
    const auto v = source.random_values(static_cast<size_t>(n) * width(shape.n_kv_heads), 0.5F);
    const auto out = attend(source.runner(), shape, batch, q.data(), k.data(), v.data(), n);

    int row = 0;
    for (size_t i = 0; i < kParts.size(); ++i) {
        SCOPED_TRACE("part " + std::to_string(i));
        const auto at = [&](const std::vector<float> & values, int heads) {
            return values.data() + static_cast<size_t>(row) * width(heads);
        };
        LaneBatch one;
        one.parts.push_back(alone[i].part(0, kParts[i]));
        const auto expected = attend(alone[i].lanes.runner(), shape, one, at(q, shape.n_heads()), at(k, shape.n_kv_heads),
                                     at(v, shape.n_kv_heads), kParts[i].n);
        EXPECT_EQ(std::memcmp(at(out, shape.n_heads()), expected.data(), expected.size() * sizeof(float)), 0);
        EXPECT_EQ(together[i].entries(), alone[i].entries());
        EXPECT_EQ(together[i].sums, alone[i].sums);
        row += kParts[i].n;
    }
}

// Their prompt's entries lie in the same memory, and are read for several of them at once.
TEST_P(LaneBatchTest, GivesForksOfOnePromptTheBitsTheyHaveAlone) {
    const BatchCase & c = GetParam();
    constexpr int kForks = 20;
    RandomLanes base(c.type, c.n_kv_heads, c.n_group, c.head_dim, 900, 3);
    ASSERT_TRUE(base.cache().freeze(8).ok());
    const CacheShape & shape = base.shape();
    const auto width = [&](int heads) { return static_cast<size_t>(heads * shape.head_dim); };
    const auto q = base.random_values(kForks * width(shape.n_heads()));
    const auto k = base.random_values(kForks * width(shape.n_kv_heads), 0.3F);
    const auto v = base.random_values(kForks * width(shape.n_kv_heads), 0.5F);
    std::vector<std::unique_ptr<RaggedCache>> forks;
    const auto fork = [&] {
        forks.push_back(base.cache().fork().value());
        EXPECT_TRUE(forks.back()->reserve(0, 0, 1).ok());
        forks.back()->append(0, 0, std::array<int32_t, 1>{903});
        return forks.back().get();
    };
    LaneBatch batch;
    for (int i = 0; i < kForks; ++i) { batch.parts.push_back({fork(), 0, i, 1, {}, nullptr, nullptr}); }
    EXPECT_GT(forks.back()->shared_rows(0, 0, 0).n, 256);
    const auto out = attend(base.runner(), shape, batch, q.data(), k.data(), v.data(), kForks);
    for (size_t i = 0; i < kForks; ++i) {
        LaneBatch one;
        one.parts.push_back({fork(), 0, 0, 1, {}, nullptr, nullptr});
        const auto expected = attend(base.runner(), shape, one, q.data() + i * width(shape.n_heads()),
                                     k.data() + i * width(shape.n_kv_heads), v.data() + i * width(shape.n_kv_heads), 1);
        EXPECT_EQ(std::memcmp(out.data() + i * width(shape.n_heads()), expected.data(), expected.size() * sizeof(float)), 0)
            << "fork " << i;
    }
}

// All types, groups of 1 to 8; the number of KV heads and their size go along.
std::vector<BatchCase> all_cases() {
    std::vector<BatchCase> all;
    for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        for (int n_group = 1; n_group <= 8; ++n_group) {
            const int head_dim = n_group == 1 ? 32 : n_group == 7 ? 128 : 64;
            all.push_back({type, 1 + (n_group + static_cast<int>(all.size())) % 3, n_group, head_dim});
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(TypesAndGroups, LaneBatchTest, ::testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace pith::lane_batch_test
