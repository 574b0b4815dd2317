// attention_maps_test.cpp - a map is what queries pay one by one, added up over its cells; with gates, what they leave.
#include "inspect/attention_maps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/gated_model.h"
#include "engine/policy_probe.h"

namespace pith::attention_maps_test {
namespace {

using testing::even_gate;
using testing::gated_model;
using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

constexpr int kTokens = 75;

AttentionMapOptions options_of(std::vector<MapHead> heads, int most_cells) {
    AttentionMapOptions options;
    options.heads = std::move(heads);
    options.most_cells = most_cells;
    options.n_threads = 1;
    return options;
}

// [query][key]: the newest query's attention, token by token.
std::vector<std::vector<double>> token_by_token(const Model & model, const std::vector<int32_t> & tokens,
                                                const MapHead & head) {
    SessionOptions options;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.observe = {"tova"};
    auto session = model.session(options);
    EXPECT_TRUE(session.ok());
    PolicyProbe look(*session);
    std::vector<std::vector<double>> rows;
    for (size_t i = 0; i < tokens.size(); ++i) {
        EXPECT_TRUE((i == 0 ? session->prefill(std::span(tokens).first(1)) : session->append(tokens[i])).ok());
        EvidenceNeeds needs;
        needs.last_query = true;
        const auto evidence = look.evidence(head.layer, needs);
        EXPECT_TRUE(evidence.ok()) << evidence.status().message();
        const auto row = evidence->last_query.row(head.head);
        rows.emplace_back(row.begin(), row.end());
    }
    return rows;
}

TEST(AttentionMaps, AreTheQueriesOwnRowsPooled) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kTokens, model->info().n_vocab, 3);
    const std::vector<MapHead> heads = {{2, 3}, {0, 1}, {2, 0}};
    for (const int most_cells : {256, 10}) {
        const auto maps = attention_maps(*model, tokens, options_of(heads, most_cells));
        ASSERT_TRUE(maps.ok()) << maps.status().message();
        ASSERT_EQ(maps->size(), 3U);
        for (size_t m = 0; m < 3; ++m) {
            const AttentionMap & map = maps->at(m);
            EXPECT_EQ(map.head, heads[m]);
            EXPECT_FALSE(map.gated);
            EXPECT_EQ(map.cell, most_cells == 256 ? 1 : 8);
            EXPECT_EQ(map.n_cells, most_cells == 256 ? kTokens : 10);
            const auto rows = token_by_token(*model, tokens, heads[m]);
            for (int r = 0; r < map.n_cells; ++r) {
                const int first = r * map.cell;
                const int end = std::min(first + map.cell, kTokens);
                EXPECT_EQ(map.n_rows[static_cast<size_t>(r)], end - first);
                double all = 0;
                for (int c = 0; c < map.n_cells; ++c) {
                    double expected = 0;
                    for (int i = first; i < end; ++i) {
                        for (int j = c * map.cell; j < std::min((c + 1) * map.cell, i + 1); ++j) {
                            expected += rows[static_cast<size_t>(i)][static_cast<size_t>(j)] / (end - first);
                        }
                    }
                    EXPECT_NEAR(static_cast<double>(map.at(r, c)), expected, 2e-5) << r << ", " << c;
                    if (c > r) { EXPECT_EQ(map.at(r, c), 0); }
                    all += static_cast<double>(map.at(r, c));
                }
                EXPECT_NEAR(all, 1, 1e-4);
            }
        }
    }
}

// Gates that say yes to everything change nothing; others leave a part, and what they evict gets nothing.
TEST(AttentionMaps, WithGatesShowWhatIsLeft) {
    for (const bool keeps_all : {true, false}) {
        GateConfig config = even_gate();
        if (keeps_all) { config.gamma = 100; }
        const auto model = gated_model(tiny_spec(), config);
        ASSERT_TRUE(model.ok()) << model.status().message();
        const auto tokens = random_tokens(kTokens, model->info().n_vocab, 4);
        const MapHead head{2, 1};
        const auto maps = attention_maps(*model, tokens, options_of({head}, 256));
        ASSERT_TRUE(maps.ok()) << maps.status().message();
        ASSERT_EQ(maps->size(), 2U);
        const AttentionMap & full = maps->at(0);
        const AttentionMap & gated = maps->at(1);
        EXPECT_FALSE(full.gated);
        EXPECT_TRUE(gated.gated);

        SessionOptions options;
        options.policy = "gated";
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens).ok());
        const auto lane = session->lane_positions(head.layer, 0);
        const std::vector<int32_t> kept(lane.begin(), lane.end());
        EXPECT_EQ(kept.size() == kTokens, keeps_all);
        for (int i = 0; i < kTokens; ++i) {
            double sum = 0;
            for (int j = 0; j < kTokens; ++j) {
                const bool seen = j <= i && std::ranges::binary_search(kept, j);
                EXPECT_EQ(gated.at(i, j) > 0, seen) << i << ", " << j;
                if (keeps_all) { EXPECT_NEAR(gated.at(i, j), full.at(i, j), 2e-5); }
                sum += static_cast<double>(gated.at(i, j));
            }
            const bool any = !kept.empty() && kept.front() <= i;
            EXPECT_NEAR(sum, any ? 1 : 0, 1e-4) << i;
        }
    }
}

TEST(AttentionMaps, RefuseWhatIsNotThere) {
    const auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(20, model->info().n_vocab);
    const auto message = [&](std::vector<MapHead> heads) {
        return attention_maps(*model, tokens, options_of(std::move(heads), 8)).status().message();
    };
    EXPECT_NE(message({{3, 0}}).find("3:0"), std::string::npos);
    EXPECT_NE(message({{0, 4}}).find("layers 0 to 2 of heads 0 to 3"), std::string::npos);
    EXPECT_EQ(attention_maps(*model, {}, options_of({{0, 0}}, 8)).status().code(), ErrorCode::kInvalidArgument);
    const std::atomic<bool> cancel = true;
    AttentionMapOptions cancelled = options_of({{0, 0}}, 8);
    cancelled.cancel = &cancel;
    EXPECT_EQ(attention_maps(*model, tokens, cancelled).status().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace pith::attention_maps_test
