// custom_scorer_test.cpp - scorers of one's own: their names, what they are shown, what becomes of what they say.
#include "pith/custom_scorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pith/policies.h"
#include "pith/policy_choice.h"
#include "policy/eviction.h"
#include "policy/evidence_maker.h"
#include "policy/own_scorer.h"
#include "policy/policy.h"
#include "policy/score/score_one.h"

namespace pith::test::custom_scorer_test {
namespace {

constexpr CacheShape kShape{.n_layers = 3, .n_kv_heads = 2, .n_group = 2, .head_dim = 4};
constexpr int kSeen = 90;

using Registered = RegisteredScorer;

Status constant(const ScorerLayer & /*layer*/, std::span<float> scores) {
    std::ranges::fill(scores, 1.0F);
    return {};
}

Result<std::vector<LayerPlan>> plans_of(const char * policy, const std::vector<LayerEvidence> & layers, bool cascade) {
    const Result<Policy> parsed = Policy::parse(policy);
    if (!parsed.ok()) { return parsed.status(); }
    EvictionPass pass(*parsed, {kShape, /*budget=*/40, {}, nullptr}, cascade, kSeen);
    std::vector<LayerPlan> plans;
    for (const LayerEvidence & layer : layers) {
        PITH_RETURN_IF_ERROR(pass.add_layer(layer));
        if (!cascade) { continue; }
        PITH_ASSIGN_OR_RETURN(const auto some, pass.cascade());
        plans.insert(plans.end(), some.begin(), some.end());
    }
    PITH_ASSIGN_OR_RETURN(const auto rest, pass.finish());
    plans.insert(plans.end(), rest.begin(), rest.end());
    return plans;
}

void expect_same_plans(const char * own, const char * built_in, const std::vector<LayerEvidence> & layers, bool cascade) {
    const auto a = plans_of(own, layers, cascade);
    const auto b = plans_of(built_in, layers, cascade);
    ASSERT_TRUE(a.ok()) << own << ": " << a.status().message();
    ASSERT_TRUE(b.ok()) << built_in << ": " << b.status().message();
    ASSERT_EQ(a->size(), b->size()) << own;
    for (size_t i = 0; i < a->size(); ++i) {
        EXPECT_EQ((*a)[i].layer, (*b)[i].layer);
        EXPECT_EQ((*a)[i].keep, (*b)[i].keep) << own << ", layer " << (*a)[i].layer;
    }
}

TEST(CustomScorer, KeepsWhatTheBuiltInOneOfTheSameFormulaKeeps) {
    const Registered own(own_window("my-window", 32));
    Rng rng(7);
    for (int round = 0; round < 3; ++round) {
        const auto ragged = make_ragged(rng, kShape, kSeen);
        const auto equal = make_equal(rng, kShape, kSeen);
        Ragged<float> mine, builtin;
        ASSERT_TRUE(Policy::parse("my-window")->scorer().score(ragged[0], mine).ok());
        ASSERT_TRUE(Policy::parse("snapkv:pool=none")->scorer().score(ragged[0], builtin).ok());
        EXPECT_EQ(mine, builtin) << "bit for bit";
        for (const char * rest : {"", "+ada", "+pyramid", "+global"}) {
            const std::string with_mine = std::string("my-window") + rest,
                              with_built_in = std::string("snapkv:pool=none") + rest;
            expect_same_plans(with_mine.c_str(), with_built_in.c_str(), ragged, false);
            expect_same_plans(with_mine.c_str(), with_built_in.c_str(), equal, true);
        }
    }
}

TEST(CustomScorer, GoesWithEveryPartThatAnotherScorerGoesWith) {
    const Registered own(own_window("my-window", 32));
    Rng rng(11);
    const auto layers = make_ragged(rng, kShape, kSeen);
    for (const char * policy : {"my-window+caote", "my-window+fastcaote", "my-window+critical", "my-window+joint",
                                "my-window+entropy", "my-window+ada+critical", "my-window+chunks"}) {
        const auto plans = plans_of(policy, layers, false);
        EXPECT_TRUE(plans.ok()) << policy << ": " << plans.status().message();
    }
    EXPECT_FALSE(Policy::parse("my-window+threshold").ok()) << "its scores mean nothing by themselves";
    EXPECT_FALSE(Policy::parse("my-window+snapkv").ok()) << "two scorers";
    EXPECT_FALSE(Policy::parse("my-window:pool=avg5").ok()) << "it has no options";
}

TEST(CustomScorer, IsShownTheArraysWhereTheyLie) {
    LayerEvidence evidence = bare_evidence(/*n_kv_heads=*/1, /*n_group=*/2, /*n=*/3);
    const std::vector<int32_t> other_lane{4, 9};
    evidence.n_kv_heads = 2;
    evidence.positions.push_row(other_lane);
    evidence.n_seen = 10;
    evidence.n_window = 2;
    evidence.head_dim = 2;
    evidence.head_dim_v = 1;
    evidence.key_rows.push_row(Row{1, 2, 3, 4, 5, 6});
    evidence.key_rows.push_row(Row{7, 8, 9, 10});
    evidence.value_rows.push_row(Row{1, 2, 3});
    evidence.value_rows.push_row(Row{4, 5});
    for (int row = 0; row < 8; ++row) {  // query head · window
        evidence.window_rows.push_row(Row(row < 4 ? 3 : 2, static_cast<float>(row)));
    }
    evidence.window_queries.assign(2 * 4 * 2, 0.5F);
    CustomScorer scorer{.name = "looks"};
    scorer.needs = {.window = 2, .window_attention = true, .window_queries = true, .keys = true, .values = true};
    scorer.score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
        EXPECT_EQ(layer.keys.data(), evidence.key_rows.flat().data()) << "no copy";
        EXPECT_EQ(layer.values.data(), evidence.value_rows.flat().data());
        EXPECT_EQ(layer.window_attention.data(), evidence.window_rows.flat().data());
        EXPECT_EQ(layer.window_queries.data(), evidence.window_queries.data());
        EXPECT_EQ(layer.positions.data(), evidence.positions.flat().data());
        EXPECT_TRUE(layer.window_mean.empty()) << "was not asked for";
        EXPECT_EQ(layer.n_entries(), 5U);
        EXPECT_EQ(std::vector<int64_t>(layer.begin.begin(), layer.begin.end()), (std::vector<int64_t>{0, 3, 5}));
        const auto of_lane = layer.lane(layer.window_attention, 1, 4);
        EXPECT_EQ(Row(of_lane.begin(), of_lane.end()), (Row{4, 4, 5, 5, 6, 6, 7, 7}));
        const auto keys = layer.lane(layer.keys, 1, 2);
        EXPECT_EQ(Row(keys.begin(), keys.end()), (Row{7, 8, 9, 10}));
        EXPECT_EQ(layer.n_window, 2);
        for (const float score : scores) { EXPECT_TRUE(std::isnan(score)) << "an entry that is left alone is found"; }
        std::ranges::fill(scores, 2.0F);
        return {};
    };
    const Registered own(std::move(scorer));
    EXPECT_EQ(scores_of("looks", evidence), (std::vector<Row>{{2, 2, 2}, {2, 2}}));
    evidence.key_rows = {};
    Ragged<float> scores;
    const Status without = Policy::parse("looks")->scorer().score(evidence, scores);
    EXPECT_EQ(without.code(), ErrorCode::kMissingEvidence);
    EXPECT_NE(without.message().find("looks needs keys"), std::string::npos) << without.message();
}

TEST(CustomScorer, ProtectsWhatItSays) {
    const Registered by_window(own_window("by-window", 32));
    const Registered none({.name = "none-of-them", .n_sinks = 3, .score = constant});
    const Registered seven({.name = "seven", .n_recent = 7, .score = constant});
    EXPECT_EQ(Policy::parse("by-window")->n_recent(100), 32);
    EXPECT_EQ(Policy::parse("none-of-them")->n_recent(100), 32);
    EXPECT_EQ(Policy::parse("none-of-them")->n_sinks(), 3);
    EXPECT_EQ(Policy::parse("seven")->n_recent(100), 7);
    EXPECT_TRUE(Policy::parse("seven")->needs() == EvidenceNeeds{}) << "nothing is captured for nothing";
}

TEST(CustomScorer, IsListedAndNamedWhereAnotherIsMisspelt) {
    CustomScorer scorer = own_window("my-window", 32);
    scorer.help = "as SnapKV";
    scorer.needs.values = true;
    {
        const Registered own(std::move(scorer));
        const auto all = list_policies();
        const auto mine = std::ranges::find(all, "my-window", &PolicyInfo::name);
        ASSERT_NE(mine, all.end());
        EXPECT_EQ(mine->kind, "scorer");
        EXPECT_EQ(mine->help, "as SnapKV");
        EXPECT_EQ(mine->needs, "window, values");
        EXPECT_TRUE(check_policy("my-window+ada").ok());
        EXPECT_NE(check_policy("my-windo").message().find("did you mean 'my-window'?"), std::string::npos);
    }
    EXPECT_FALSE(check_policy("my-window").ok()) << "it is gone";
}

TEST(CustomScorer, NamesAreChecked) {
    const auto refused = [](const std::string & name) {
        const Status status = register_scorer({.name = name, .score = constant});
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << name;
        EXPECT_NE(status.message().find("scorer '" + name + "': "), std::string::npos) << status.message();
        return status.message();
    };
    for (const char * name : {"", "7up", "-a", "a b", "a+b", "a:b", "a,b", "a=b", "ä"}) { refused(name); }
    refused(std::string(65, 'a'));
    for (const char * taken : {"auto", "gated", "snapkv", "ada", "topk", "caote", "h2o", "laprox"}) {
        EXPECT_NE(refused(taken).find("use another, e.g. my-"), std::string::npos);
    }
    const Registered own({.name = "A1-b_c.d", .score = constant});
    EXPECT_NE(refused("A1-b_c.d").find("registered already"), std::string::npos);
    EXPECT_EQ(unregister_scorer("no-such").code(), ErrorCode::kNotFound);
    EXPECT_EQ(unregister_scorer("snapkv").code(), ErrorCode::kNotFound) << "Pith's stay";
}

TEST(CustomScorer, NeedsAreChecked) {
    const auto refused = [](CustomScorer scorer, const char * why) {
        scorer.name = "bad";
        const Status status = register_scorer(std::move(scorer));
        EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
    };
    refused({.name = ""}, "it has no function");
    refused({.needs = {.window_mean = true}, .score = constant}, "its window is 0");
    refused({.needs = {.window = 8}, .score = constant}, "a window of 8 queries that it needs nothing of");
    refused({.needs = {.window = -1, .window_max = true}, .score = constant}, "a window of -1");
    refused({.n_sinks = -1, .score = constant}, "-1 first");
    refused({.n_recent = -2, .score = constant}, "-2 newest");
}

TEST(CustomScorer, StaysWhileSomebodyUsesIt) {
    ASSERT_TRUE(register_scorer({.name = "used", .score = constant}).ok());
    {
        const PolicyChoice choice("used+ada");
        const Status refused = unregister_scorer("used");
        EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(refused.message().find("in use"), std::string::npos) << refused.message();
        EXPECT_TRUE(choice.check().ok());
    }
    EXPECT_TRUE(unregister_scorer("used").ok());
    EXPECT_TRUE(register_scorer({.name = "used", .score = constant}).ok()) << "the name is free again";
    EXPECT_TRUE(unregister_scorer("used").ok());
}

TEST(CustomScorer, WhatItSaysIsChecked) {
    Rng rng(3);
    const auto layers = make_equal(rng, kShape, kSeen);
    float says = 0;
    const Registered own({.name = "says", .score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
                              std::ranges::fill(scores, 1.0F);
                              scores[static_cast<size_t>(layer.begin[1]) + 5] = says;
                              return {};
                          }});
    const Registered silent({.name = "silent", .score = [](const ScorerLayer &, std::span<float>) { return Status(); }});
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()}) {
        says = broken;
        const auto plans = plans_of("says", layers, false);
        ASSERT_FALSE(plans.ok());
        EXPECT_EQ(plans.status().code(), ErrorCode::kNotFinite);
        EXPECT_NE(plans.status().message().find("scorer 'says' gave layer 0, head 1, entry 5 (position 5) the score "),
                  std::string::npos)
            << plans.status().message();
    }
    says = -3e38F;
    EXPECT_TRUE(plans_of("says", layers, false).ok()) << "any finite number is a score";
    EXPECT_EQ(plans_of("silent", layers, false).status().code(), ErrorCode::kNotFinite);
}

TEST(CustomScorer, AnErrorOrAnExceptionNamesIt) {
    Rng rng(4);
    const auto layers = make_equal(rng, kShape, kSeen);
    int how = 0;
    const Registered own({.name = "fails", .score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
                              if (layer.layer == 1 && how == 0) { return {ErrorCode::kInvalidArgument, "no such lane"}; }
                              if (layer.layer == 1 && how == 1) { throw std::runtime_error("division by zero"); }
                              if (layer.layer == 1 && how == 2) { throw std::bad_alloc(); }
                              if (layer.layer == 1 && how == 3) { throw 7; }
                              return constant(layer, scores);
                          }});
    const std::pair<ErrorCode, const char *> expected[] = {
        {ErrorCode::kInvalidArgument, "scorer 'fails', layer 1: no such lane"},
        {ErrorCode::kInternal, "scorer 'fails', layer 1: its function threw: division by zero"},
        {ErrorCode::kOutOfMemory, "scorer 'fails', layer 1: its function is out of memory"},
        {ErrorCode::kInternal, "scorer 'fails', layer 1: its function threw"}};
    for (how = 0; how < 4; ++how) {
        for (const bool cascade : {false, true}) {
            const auto plans = plans_of("fails+ada", layers, cascade);
            ASSERT_FALSE(plans.ok());
            EXPECT_EQ(plans.status().code(), expected[how].first);
            EXPECT_EQ(plans.status().message(), expected[how].second);
        }
    }
    EXPECT_TRUE(plans_of("fails+ada", layers, false).ok());
}

TEST(CustomScorer, ItsFunctionMustNotAskForAnother) {
    const LayerEvidence evidence = bare_evidence(1, 1, 4);
    const Registered inner({.name = "inner", .score = constant});
    const Registered outer({.name = "outer", .score = [&](const ScorerLayer &, std::span<float>) {
                                Ragged<float> scores;
                                return Policy::parse("inner")->scorer().score(evidence, scores);
                            }});
    Ragged<float> scores;
    const Status status = Policy::parse("outer")->scorer().score(evidence, scores);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find("while the function of scorer 'outer' ran"), std::string::npos) << status.message();
    EXPECT_TRUE(Policy::parse("inner")->scorer().score(evidence, scores).ok()) << "later it may";
}

TEST(CustomScorer, IsCalledByOneThreadAtATime) {
    const LayerEvidence evidence = bare_evidence(1, 1, 4);
    std::atomic<int> inside = 0, most = 0;
    const Registered own({.name = "alone", .score = [&](const ScorerLayer & layer, std::span<float> scores) -> Status {
                              most = std::max(most.load(), ++inside);
                              std::this_thread::yield();
                              --inside;
                              return constant(layer, scores);
                          }});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            const Policy policy = Policy::parse("alone").value();
            Ragged<float> scores;
            for (int i = 0; i < 200; ++i) { EXPECT_TRUE(policy.scorer().score(evidence, scores).ok()); }
        });
    }
    for (std::thread & thread : threads) { thread.join(); }
    EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace pith::test::custom_scorer_test
