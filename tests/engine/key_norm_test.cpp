// key_norm_test.cpp - norms of keys before RoPE, as they are read while a layer runs and carried with the entries.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/policy_probe.h"
#include "engine/tiny_model.h"
#include "pith/session.h"

namespace pith::key_norm_test {
namespace {

using testing::tiny_model;
using testing::tiny_spec;

constexpr int kPrompt = 120;
constexpr int kTokens = 5;  // different ones: every token comes many times

std::vector<int32_t> repeating_tokens(int n) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < n; ++i) { tokens.push_back(7 + (i * i + i / 3) % kTokens); }
    return tokens;
}

class KeyNorms : public ::testing::TestWithParam<KvType> {
protected:
    static Session open(PrefillSchedule schedule, const std::string & policy, int budget) {
        static const Model model = tiny_model(tiny_spec()).value();
        SessionOptions options;
        options.policy = policy;
        options.budget = Budget(budget);
        options.prefill = schedule;
        options.chunk = 24;
        options.type_k = GetParam();
        options.n_threads = 1;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
    static Ragged<float> norms_of(Session & session, int layer) {
        const auto evidence = PolicyProbe(session).evidence(layer, {.key_norm = true});
        EXPECT_TRUE(evidence.ok()) << evidence.status().message();
        return evidence->key_norm;
    }
};

// In the first layer a key depends on its token alone: turned by RoPE and rounded to the K type, equal tokens would differ.
TEST_P(KeyNorms, OfEqualTokensAreEqualInTheFirstLayer) {
    Session session = open(PrefillSchedule::kOneShot, "knorm", kPrompt);
    const std::vector<int32_t> tokens = repeating_tokens(kPrompt);
    ASSERT_TRUE(session.prefill(tokens).ok());
    const Ragged<float> norms = norms_of(session, 0);
    for (int h = 0; h < norms.n_rows(); ++h) {
        ASSERT_EQ(norms.length(h), kPrompt);
        std::map<int32_t, float> of_token;
        for (int j = 0; j < kPrompt; ++j) {
            const auto [first, is_new] = of_token.emplace(tokens[static_cast<size_t>(j)], norms.row(h)[static_cast<size_t>(j)]);
            EXPECT_EQ(norms.row(h)[static_cast<size_t>(j)], first->second) << "entry " << j << ", lane " << h;
        }
        EXPECT_EQ(of_token.size(), static_cast<size_t>(kTokens));
    }
}

// What is left after evictions in chunks and in decode has the norms it came with.
TEST_P(KeyNorms, AreCarriedThroughCompaction) {
    Session session = open(PrefillSchedule::kChunked, "random:recent=0", 30);
    Session whole = open(PrefillSchedule::kOneShot, "knorm", kPrompt + 10);
    const std::vector<int32_t> tokens = repeating_tokens(kPrompt);
    ASSERT_TRUE(session.prefill(tokens).ok());
    ASSERT_TRUE(whole.prefill(tokens).ok());
    EXPECT_EQ(PolicyProbe(session).evidence(0, {.key_norm = true}).status().code(), ErrorCode::kMissingEvidence)
        << "nobody asked for norms when this session was made";

    Session carried = open(PrefillSchedule::kChunked, "knorm:recent=0", 30);
    ASSERT_TRUE(carried.prefill(tokens).ok());
    for (const int32_t token : {9, 7, 8, 10, 11}) { ASSERT_TRUE(carried.prefill(std::vector<int32_t>{token}).ok()); }
    const Ragged<float> all = norms_of(whole, 0);
    const Ragged<float> left = norms_of(carried, 0);
    int n_checked = 0;
    for (int h = 0; h < left.n_rows(); ++h) {
        const auto positions = carried.lane_positions(0, h);
        ASSERT_EQ(left.length(h), static_cast<int>(positions.size()));
        EXPECT_LT(left.length(h), kPrompt);
        for (size_t j = 0; j < positions.size(); ++j) {
            if (positions[j] >= kPrompt) { continue; }
            const float expected = all.row(h)[static_cast<size_t>(positions[j])];
            EXPECT_NEAR(left.row(h)[j], expected, 1e-5 * expected);  // products of other widths may round otherwise
            ++n_checked;
        }
    }
    EXPECT_GT(n_checked, 20);
}

INSTANTIATE_TEST_SUITE_P(Types, KeyNorms, ::testing::Values(KvType::kF32, KvType::kF16, KvType::kQ8_0));

}  // namespace
}  // namespace pith::key_norm_test
