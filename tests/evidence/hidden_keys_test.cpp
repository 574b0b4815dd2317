// hidden_keys_test.cpp - keys that a gate said no to: attention and column sums against plain f64 code, on both paths.
#include "attention/cpu/hidden_keys.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "attention/random_lanes.h"
#include "evidence/evidence_state.h"

namespace pith::hidden_keys_test {
namespace {

using testing::RandomLanes;
using testing::Vector;

TEST(HiddenKeys, DisappearForQueriesThatAreTooFarAway) {
    const HiddenKeys keys{{{70, 75}, {}}, 3};
    std::vector<int32_t> positions(80);
    std::iota(positions.begin(), positions.end(), 0);
    HiddenLane lane;
    fill_hidden_lane(keys, 0, positions, lane);
    EXPECT_EQ(lane.first, 64);
    EXPECT_FALSE(lane.hides(70, 72));
    EXPECT_TRUE(lane.hides(70, 73));
    EXPECT_FALSE(lane.hides(75, 77));
    EXPECT_TRUE(lane.hides(75, 78));
    EXPECT_FALSE(lane.hides(71, 1000));
    EXPECT_FALSE(lane.hides(3, 1000));
    fill_hidden_lane(keys, 1, positions, lane);
    EXPECT_FALSE(lane.any());
}

struct Case {
    int n_kv_heads;
    int n_group;
    int head_dim;
    int n_old;  // tokens before, of whose older half a third is gone
    int n_new;
    int n_recent;
    bool portable;
    bool sums;
};

void PrintTo(const Case & c, std::ostream * out) {
    *out << "K=" << c.n_kv_heads << " G=" << c.n_group << " d=" << c.head_dim << " " << c.n_old << "+" << c.n_new << " recent "
         << c.n_recent << (c.portable ? " portable" : "") << (c.sums ? " sums" : "");
}

class HiddenKeysTest : public ::testing::TestWithParam<Case> {};

TEST_P(HiddenKeysTest, AreSeenByTheQueriesNextToThemAlone) {
    const Case & c = GetParam();
    RandomLanes lanes(GGML_TYPE_F32, c.n_kv_heads, c.n_group, c.head_dim, c.n_old / 2, c.n_old - c.n_old / 2);
    RaggedCache & cache = lanes.cache();
    const CacheShape & shape = lanes.shape();
    lanes.runner().set_custom_operations(!c.portable);
    const auto d = static_cast<size_t>(c.head_dim);
    const auto q = lanes.random_values(static_cast<size_t>(c.n_new * shape.n_heads()) * d);
    const auto k = lanes.random_values(static_cast<size_t>(c.n_new * c.n_kv_heads) * d, 0.3F);
    const auto v = lanes.random_values(static_cast<size_t>(c.n_new * c.n_kv_heads) * d, 0.5F);
    std::vector<int32_t> positions(static_cast<size_t>(c.n_new));
    std::iota(positions.begin(), positions.end(), c.n_old);
    ASSERT_TRUE(cache.reserve(0, 0, c.n_new).ok());
    cache.append(0, 0, positions);

    // Two of three keys of the newest half, the last old ones included.
    HiddenKeys hidden;
    hidden.n_recent = c.n_recent;
    for (int h = 0; h < c.n_kv_heads; ++h) {
        hidden.positions.emplace_back();
        for (const int32_t position : cache.positions(h)) {
            if (position >= c.n_old - 4 && lanes.random()() % 3 != 0) { hidden.positions.back().push_back(position); }
        }
    }
    hidden.positions.back().push_back(c.n_old + c.n_new - 1);
    std::ranges::sort(hidden.positions.back());
    auto & newest = hidden.positions.back();
    newest.erase(std::unique(newest.begin(), newest.end()), newest.end());

    EvidenceState evidence(shape, EvidenceNeeds{.running_sum = true});
    GraphBuild * build = *lanes.runner().begin(512);
    const auto input = [&](const std::vector<float> & values, int heads) {
        return ggml_reshape_3d(build->ctx(), build->input(GGML_TYPE_F32, shape.head_dim * heads, c.n_new, values.data()),
                               shape.head_dim, heads, c.n_new);
    };
    std::vector<float> out(q.size());
    const ColumnSums sums = c.sums && !c.portable ? ColumnSums(running_sums(cache, evidence, 0)) : ColumnSums();
    ggml_tensor * query = input(q, shape.n_heads());
    ggml_tensor * key = input(k, c.n_kv_heads);
    ggml_tensor * value = input(v, c.n_kv_heads);
    build->output(build_lane_attention(*build, single_part(cache, 0, c.n_new, sums, &hidden), 0, query, key, value),
                  out.data());
    ASSERT_TRUE(lanes.runner().run().ok());
    if (c.sums && c.portable) {
        ASSERT_TRUE(evidence.add_running(lanes.runner(), cache, 0, 0, q.data(), c.n_new, c.n_old, &hidden).ok());
    }

    double worst = 0;
    double worst_sum = 0;
    for (int head = 0; head < shape.n_heads(); ++head) {
        const int h = head / c.n_group;
        const auto lane = cache.positions(h);
        const auto & gone = hidden.positions[static_cast<size_t>(h)];
        Vector columns(lane.size(), 0.0);
        for (int t = 0; t < c.n_new; ++t) {
            const float * one = q.data() + static_cast<int64_t>(t * shape.n_heads() + head) * c.head_dim;
            Vector p(lane.size(), 0.0);
            double total = 0;
            for (size_t j = 0; j < lane.size(); ++j) {
                const int32_t back = positions[static_cast<size_t>(t)] - lane[j];
                if (back < 0 || (std::ranges::binary_search(gone, lane[j]) && back >= c.n_recent)) { continue; }
                const Vector row = lanes.key(h, static_cast<int>(j));
                double product = 0;
                for (size_t i = 0; i < d; ++i) { product += row[i] * static_cast<double>(one[i]); }
                p[j] = std::exp(product / std::sqrt(static_cast<double>(d)));
                total += p[j];
            }
            Vector expected(d, 0.0);
            for (size_t j = 0; j < lane.size(); ++j) {
                const Vector row = lanes.value(h, static_cast<int>(j));
                columns[j] += p[j] / total;
                for (size_t i = 0; i < d; ++i) { expected[i] += p[j] / total * row[i]; }
            }
            for (size_t i = 0; i < d; ++i) {
                const auto at = static_cast<size_t>(t * shape.n_heads() + head) * d + i;
                worst = std::max(worst, std::abs(expected[i] - static_cast<double>(out[at])));
            }
        }
        if (!c.sums) { continue; }
        const auto got = evidence.layer(0).running[static_cast<size_t>(head)].values();
        ASSERT_EQ(got.size(), lane.size());
        for (size_t j = 0; j < lane.size(); ++j) {
            worst_sum = std::max(worst_sum, std::abs(columns[j] - static_cast<double>(got[j])));
        }
    }
    EXPECT_LE(worst, 2e-5);
    EXPECT_LE(worst_sum, 2e-4);  // up to n_new probabilities in each
}

std::vector<Case> cases() {
    std::vector<Case> list;
    for (const bool portable : {false, true}) {
        for (const bool sums : {false, true}) {
            for (const int n_recent : {1, 5}) {
                list.push_back({2, 2, 32, 150, 70, n_recent, portable, sums});
                list.push_back({3, 1, 16, 2, 130, n_recent, portable, sums});
                list.push_back({2, 2, 32, 90, 3, n_recent, portable, sums});  // few rows
                list.push_back({1, 4, 64, 700, 40, n_recent, portable, sums});
            }
        }
    }
    return list;
}

INSTANTIATE_TEST_SUITE_P(All, HiddenKeysTest, ::testing::ValuesIn(cases()));

TEST(HiddenKeysTargets, EveryInstructionSetHidesTheSame) {
    for (const char * target : cpu_attention_targets()) {
        ASSERT_TRUE(use_cpu_attention_target(target));
        constexpr int kHeadDim = 16, kTokens = 150;
        AttentionTask task;
        task.k_format = task.v_format = KvFormat::kF32;
        task.head_dim = task.head_dim_v = kHeadDim;
        task.n_queries = kTokens;
        task.k_stride = task.v_stride = kHeadDim * sizeof(float);
        task.q_query_stride = task.out_query_stride = kHeadDim;
        task.q_head_stride = task.out_head_stride = kHeadDim;
        // Keys of zeros: every query pays all it sees alike, so that a column of ones says how many that are.
        const std::vector<float> k(kTokens * kHeadDim, 0.0F), q(k);
        std::vector<float> v(k), out(k);
        for (size_t j = 0; j < kTokens; ++j) { v[j * kHeadDim] = static_cast<float>(j); }
        std::vector<int32_t> positions(kTokens);
        std::iota(positions.begin(), positions.end(), 0);
        HiddenKeys hidden{{{}}, 2};
        for (int32_t j = 60; j < kTokens; ++j) { hidden.positions[0].push_back(j); }
        task.hidden_lanes.resize(1);
        fill_hidden_lane(hidden, 0, positions, task.hidden_lanes[0]);
        task.hides = true;
        LaneView lane;
        lane.k = k.data();
        lane.v = v.data();
        lane.length = kTokens;
        lane.q = q.data();
        lane.out = out.data();
        lane.hidden = task.hidden_lanes.data();
        lane.query_positions = positions.data();
        task.lanes = {lane};
        AttentionPlan plan;
        plan.task = task;
        plan.make();
        AttentionScratch scratch;
        scratch.reserve(plan);
        attend_part(plan, scratch, 0);
        ASSERT_TRUE(plan.finished());
        for (int i = 0; i < kTokens; ++i) {
            double sum = 0;
            int n = 0;
            for (int j = 0; j <= i; ++j) {
                if (j >= 60 && i - j >= 2) { continue; }
                sum += j;
                ++n;
            }
            EXPECT_NEAR(out[static_cast<size_t>(i * kHeadDim)], sum / n, 1e-3) << target << " query " << i;
        }
    }
    use_cpu_attention_target(nullptr);
}

}  // namespace
}  // namespace pith::hidden_keys_test
