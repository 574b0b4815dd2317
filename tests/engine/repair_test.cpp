// repair_test.cpp - what was evicted comes back for a question: the lanes are then those of a full cache with exactly the kept
// entries unmasked, within the budget they had.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "engine/evict/cold_scores.h"
#include "engine/mask_oracle.h"
#include "engine/session_state.h"
#include "engine/tiny_session.h"
#include "evidence/observe.h"
#include "pith/cache_file.h"
#include "policy/lane/swaps.h"

namespace pith::repair_test {
namespace {

using testing::contents_of;
using testing::EvictionLog;
using testing::lanes_below;
using testing::one_tiny_model;
using testing::open_tiny;
using testing::random_tokens;

constexpr int kContext = 120;
constexpr int kQuestion = 12;
constexpr int kBudget = 40;

SessionOptions options_of(const char * policy, PrefillSchedule schedule, KvType type, KvType cold) {
    SessionOptions options = testing::tiny_options(policy, kBudget, schedule, 24);
    options.type_k = options.type_v = type;
    options.cold = cold;
    options.evict_every = 8;
    options.repair_every = 0;  // what answers look for: RepairAnswer
    return options;
}

struct Texts {
    std::vector<int32_t> all = random_tokens(kContext + kQuestion, 384);
    std::span<const int32_t> context = std::span(all).first(kContext);
    std::span<const int32_t> question = std::span(all).last(kQuestion);
};

size_t n_in_all(const std::vector<std::vector<int32_t>> & lanes) {
    size_t n = 0;
    for (const auto & lane : lanes) { n += lane.size(); }
    return n;
}

struct Types {
    KvType type;
    KvType cold;
    double tolerance;
};

class Repair : public ::testing::TestWithParam<std::tuple<PrefillSchedule, Types>> {};

TEST_P(Repair, LogitsAreThoseOfAFullCacheWithExactlyTheKeptEntriesUnmasked) {
    const auto & [schedule, types] = GetParam();
    const Texts texts;
    Session session = open_tiny(options_of("knorm", schedule, types.type, types.cold));
    EvictionLog log;
    RunHooks hooks;
    hooks.progress = [&](int64_t, int64_t) {
        if (schedule == PrefillSchedule::kChunked) { log.look(session); }
    };
    ASSERT_TRUE(session.prefill(texts.context, hooks).ok());
    log.look(session);
    const auto before = lanes_below(session, kContext);
    const std::vector<float> logits_before(session.logits().begin(), session.logits().end());

    ASSERT_TRUE(session.repair(texts.question).ok());
    const auto after = lanes_below(session, kContext);
    EXPECT_TRUE(std::ranges::equal(session.logits(), logits_before));
    EXPECT_EQ(session.n_tokens(), kContext);
    EXPECT_GT(session.ledger().returned_entries, 0);
    EXPECT_GT(session.ledger().kv_missed, 0);
    EXPECT_LT(session.ledger().kv_missed, 1);
    EXPECT_NE(before, after);
    for (size_t i = 0; i < before.size(); ++i) { EXPECT_EQ(after[i].size(), before[i].size()) << "lane " << i; }

    std::vector<float> got;
    RunHooks rows;
    rows.on_logits = [&](int64_t, std::span<const float> row) { got.insert(got.end(), row.begin(), row.end()); };
    ASSERT_TRUE(session.prefill(texts.question, rows).ok());
    const int n_group = one_tiny_model().info().n_heads / one_tiny_model().info().n_kv_heads;
    const auto mask = [&](int layer, int head, int query, int key) {
        const int kv_head = head / n_group;
        if (key >= kContext) { return 0.0F; }
        const auto & kept = after[static_cast<size_t>(layer * one_tiny_model().info().n_kv_heads + kv_head)];
        const bool hidden = query < kContext ? log.hidden(layer, kv_head, query, key) : !std::ranges::binary_search(kept, key);
        return hidden ? -INFINITY : 0.0F;
    };
    std::vector<int32_t> wanted(kQuestion);
    std::iota(wanted.begin(), wanted.end(), kContext);
    const std::vector<float> expected = testing::plain_logits(file_of(one_tiny_model()), texts.all, mask, wanted, 1);
    EXPECT_LT(testing::relative_error(got, expected), types.tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Caches, Repair,
    ::testing::Combine(::testing::Values(PrefillSchedule::kOneShot, PrefillSchedule::kChunked),
                       ::testing::Values(Types{KvType::kF32, KvType::kF32, 1e-5}, Types{KvType::kF16, KvType::kF16, 2e-3},
                                         Types{KvType::kQ8_0, KvType::kQ8_0, 3e-2}, Types{KvType::kF16, KvType::kQ8_0, 3e-2})));

// Behind a question, tokens of an answer one by one: which entries of the context each of them saw.
struct Answered {
    std::vector<std::vector<std::vector<int32_t>>> lanes;  // [token]
    std::vector<float> logits;                             // [token][n_vocab]
};

Answered answer_with(Session & session, std::span<const int32_t> tokens) {
    Answered answered;
    for (const int32_t token : tokens) {
        answered.lanes.push_back(lanes_below(session, kContext));
        EXPECT_TRUE(session.append(token).ok());
        answered.logits.insert(answered.logits.end(), session.logits().begin(), session.logits().end());
    }
    return answered;
}

Session asked(const Texts & texts, int repair_every, bool looks_back) {
    SessionOptions options = options_of("knorm", PrefillSchedule::kChunked, KvType::kF32, KvType::kF32);
    options.evict_every = 0;  // what changes places below does so for the answer's sake
    options.repair_every = repair_every;
    options.look_back = looks_back;
    Session session = open_tiny(options);
    EXPECT_TRUE(session.prefill(texts.context).ok());
    RunHooks hooks;
    hooks.repair = looks_back;
    if (!looks_back) { EXPECT_TRUE(session.repair(texts.question).ok()); }
    EXPECT_TRUE(session.prefill(texts.question, hooks).ok());
    return session;
}

class RepairAnswer : public ::testing::TestWithParam<bool> {};

TEST_P(RepairAnswer, WhatAnAnswerLooksForComesBackEverySoManyTokens) {
    const Texts texts;
    const std::vector<int32_t> answer = random_tokens(11, 384, 9);
    Session session = asked(texts, 4, GetParam());
    const int64_t n_for_question = session.ledger().returned_entries;
    const double missed = session.ledger().kv_missed;
    const Answered answered = answer_with(session, answer);
    EXPECT_EQ(session.ledger().n_answer_repairs, 2);
    EXPECT_EQ(session.ledger().returned_entries, n_for_question);
    EXPECT_EQ(session.ledger().kv_missed, missed);
    for (size_t i = 1; i < answered.lanes.size(); ++i) {
        EXPECT_EQ(answered.lanes[i] != answered.lanes[i - 1], i % 4 == 0) << "token " << i;
        for (size_t lane = 0; lane < answered.lanes[i].size(); ++lane) {
            EXPECT_EQ(answered.lanes[i][lane].size(), answered.lanes[0][lane].size());
        }
    }
    // And each token has seen exactly these.
    std::vector<int32_t> all(texts.all);
    all.insert(all.end(), answer.begin(), answer.end());
    const ModelInfo & info = one_tiny_model().info();
    const int n_group = info.n_heads / info.n_kv_heads;
    std::vector<int32_t> wanted(answer.size());
    std::iota(wanted.begin(), wanted.end(), kContext + kQuestion);
    if (GetParam()) { return; }  // what a prompt saw that looked back is another test's
    EvictionLog log;
    Session twin = open_tiny(options_of("knorm", PrefillSchedule::kChunked, KvType::kF32, KvType::kF32));
    RunHooks hooks;
    hooks.progress = [&](int64_t, int64_t) { log.look(twin); };
    ASSERT_TRUE(twin.prefill(texts.context, hooks).ok());
    ASSERT_TRUE(twin.repair(texts.question).ok());
    const auto behind = lanes_below(twin, kContext);
    const auto mask = [&](int layer, int head, int query, int key) {
        const int kv_head = head / n_group;
        if (key >= kContext) { return 0.0F; }
        if (query < kContext) { return log.hidden(layer, kv_head, query, key) ? -INFINITY : 0.0F; }
        const int token = query - kContext - kQuestion;
        const auto & lanes = token < 0 ? behind : answered.lanes[static_cast<size_t>(token)];
        const auto & kept = lanes[static_cast<size_t>(layer * info.n_kv_heads + kv_head)];
        return std::ranges::binary_search(kept, key) ? 0.0F : -INFINITY;
    };
    const std::vector<float> expected = testing::plain_logits(file_of(one_tiny_model()), all, mask, wanted, 1);
    EXPECT_LT(testing::relative_error(answered.logits, expected), 1e-5);
}

TEST_P(RepairAnswer, WithoutItOnlyTheQuestionLooks) {
    const Texts texts;
    const std::vector<int32_t> answer = random_tokens(11, 384, 9);
    Session session = asked(texts, 0, GetParam());
    const Answered answered = answer_with(session, answer);
    EXPECT_EQ(session.ledger().n_answer_repairs, 0);
    for (const auto & lanes : answered.lanes) { EXPECT_EQ(lanes, answered.lanes.front()); }
    EXPECT_TRUE(session.set_repair_every(2).ok());  // of the next question's answer
    EXPECT_EQ(session.set_repair_every(65).code(), ErrorCode::kInvalidArgument);
}

TEST_P(RepairAnswer, GoesOnFromASnapshotAsItWas) {
    const Texts texts;
    const std::vector<int32_t> answer = random_tokens(14, 384, 9);
    Session session = asked(texts, 4, GetParam());
    answer_with(session, std::span(answer).first(3));
    const auto snapshot = session.snapshot();
    ASSERT_TRUE(snapshot.ok());
    const Answered once = answer_with(session, std::span(answer).subspan(3));
    ASSERT_TRUE(session.restore(*snapshot).ok());
    const Answered again = answer_with(session, std::span(answer).subspan(3));
    EXPECT_EQ(again.lanes, once.lanes);
    EXPECT_EQ(again.logits, once.logits);
    EXPECT_NE(once.lanes.front(), once.lanes.back());
}

// A file holds no question; the next prompt is none of its answer's.
TEST_P(RepairAnswer, EndsWithTheAnswerAndWithTheSession) {
    const Texts texts;
    const std::vector<int32_t> answer = random_tokens(6, 384, 9);
    Session session = asked(texts, 4, GetParam());
    answer_with(session, std::span(answer).first(2));
    const std::string path = testing::scratch_file(GetParam() ? "answered-back.pith" : "answered.pith").string();
    ASSERT_TRUE(session.save(path).ok());
    auto opened = one_tiny_model().open_session(path, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const Answered of_file = answer_with(*opened, answer);
    EXPECT_EQ(of_file.lanes.front(), of_file.lanes.back());
    EXPECT_EQ(opened->ledger().n_answer_repairs, 0);
    // Another question, and its answer: of neither something stays in the next file.
    RunHooks looks;
    looks.repair = GetParam();
    if (!GetParam()) { ASSERT_TRUE(session.repair(texts.question).ok()); }
    ASSERT_TRUE(session.prefill(texts.question, looks).ok());
    answer_with(session, std::span(answer).first(2));
    ASSERT_TRUE(session.save(path).ok());
    opened = one_tiny_model().open_session(path, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_TRUE(session.prefill(texts.question).ok());
    const Answered of_next = answer_with(session, answer);
    EXPECT_EQ(of_next.lanes.front(), of_next.lanes.back());
    EXPECT_EQ(session.ledger().n_answer_repairs, 0);
}

INSTANTIATE_TEST_SUITE_P(LookingBackOrNot, RepairAnswer, ::testing::Bool());

TEST(Repair, QueriesPayToBothWhatTheyPayToAFullCache) {
    const Texts texts;
    for (const char * policy : {"knorm", "h2o"}) {
        Session full = open_tiny(testing::tiny_options("full", 0, PrefillSchedule::kOneShot, 24));
        SessionOptions options = options_of(policy, PrefillSchedule::kOneShot, KvType::kF16, KvType::kF32);
        options.n_threads = 3;
        Session session = open_tiny(options);
        ASSERT_TRUE(full.prefill(texts.context).ok());
        ASSERT_TRUE(session.prefill(texts.context).ok());
        LiveSession & live = live_session(session);
        LiveSession & whole = live_session(full);
        std::mt19937 random(3);
        std::vector<AskedQueries> queries(2);  // of both layers, in one call
        std::vector<Observed> seen(2);
        for (int layer = 0; layer < 2; ++layer) {
            AskedQueries & of_layer = queries[static_cast<size_t>(layer)];
            of_layer.layer = layer;
            of_layer.end_of_context = kContext;
            of_layer.positions = {kContext, kContext + 1, kContext + 2};
            of_layer.rows.resize(3 * static_cast<size_t>(live.shape().n_heads() * live.shape().head_dim));
            for (float & x : of_layer.rows) { x = std::normal_distribution<float>(0, 3)(random); }
            ASSERT_TRUE(observe_queries(whole.forward->observer(), *whole.seq.cache, 0, layer, of_layer.rows.data(),
                                        of_layer.positions, {.column_sum = true}, seen[static_cast<size_t>(layer)])
                            .ok());
        }
        const ColdScorer scorer(live);
        for (const bool side_by_side : {true, false}) {  // the latter by ggml's operations
            live.forward->observer().set_custom_operations(side_by_side);
            std::mutex mutex;
            std::set<std::pair<int, int>> lanes;
            const auto queries_of = [&](int layer) { return queries[static_cast<size_t>(layer)]; };
            const std::vector<int> layers = {0, 1};
            const auto visit = [&](int layer, int h, const LaneOfBoth & both, const PaidToBoth & paid) {
                const std::scoped_lock lock(mutex);
                EXPECT_TRUE(lanes.emplace(layer, h).second) << layer << ", " << h;
                ASSERT_EQ(both.positions.size(), static_cast<size_t>(kContext));
                EXPECT_NEAR(paid.cold + paid.kept, 3 * live.shape().n_group, 1e-3);
                for (int j = 0; j < kContext; ++j) {
                    float sum = 0;
                    for (int g = 0; g < live.shape().n_group; ++g) {
                        const auto of_head = seen[static_cast<size_t>(layer)].column_sum.row(h * live.shape().n_group + g);
                        sum += of_head[static_cast<size_t>(j)];
                    }
                    EXPECT_NEAR(both.paid[static_cast<size_t>(j)], sum, 1e-4) << policy << ", entry " << j;
                }
            };
            const Status scored = scorer.score(layers, queries_of, visit);
            ASSERT_TRUE(scored.ok()) << scored.message();
            EXPECT_EQ(std::ssize(lanes), 2 * live.shape().n_kv_heads);
        }
    }
}

TEST(Repair, ASnapshotIsTheContextAsItWasAndTheNextQuestionFindsTheSame) {
    const Texts texts;
    for (const char * policy : {"knorm", "h2o", "reread", "snapkv", "compactor"}) {
        Session session = open_tiny(options_of(policy, PrefillSchedule::kChunked, KvType::kF16, KvType::kQ8_0));
        ASSERT_TRUE(session.prefill(texts.context).ok());
        const auto before = contents_of(session);
        const auto snapshot = session.snapshot().value();
        ASSERT_TRUE(session.repair(texts.question).ok());
        const auto repaired = contents_of(session);
        EXPECT_FALSE(before == repaired);
        ASSERT_TRUE(session.prefill(texts.question).ok());
        for (int i = 0; i < 40; ++i) { ASSERT_TRUE(session.append(texts.all[static_cast<size_t>(i)]).ok()) << policy; }
        const auto entries = session.ledger().kept_entries + session.ledger().cold_entries;
        EXPECT_EQ(entries, session.n_tokens() * session.ledger().n_lanes) << policy;  // nothing is lost on the way
        ASSERT_TRUE(session.restore(snapshot).ok());
        EXPECT_TRUE(contents_of(session) == before) << policy;
        ASSERT_TRUE(session.repair(texts.question).ok());
        EXPECT_TRUE(contents_of(session) == repaired) << policy;
    }
}

TEST(Repair, EvictedEntriesComeBackFromAFileAsFromTheSessionThatEvictedThem) {
    const Texts texts;
    Session session = open_tiny(options_of("knorm", PrefillSchedule::kChunked, KvType::kF16, KvType::kQ4_0));
    ASSERT_TRUE(session.prefill(texts.context).ok());
    ASSERT_TRUE(session.repair(texts.question.first(4)).ok());  // some are in both places
    const std::string path = testing::scratch_file("cold.pith").string();
    ASSERT_TRUE(session.save(path).ok());
    auto opened = one_tiny_model().open_session(path, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_TRUE(contents_of(*opened) == contents_of(session));
    ASSERT_TRUE(opened->set_repair_every(0).ok());
    EXPECT_EQ(read_cache_info(path)->n_cold_entries, session.ledger().cold_entries);
    for (Session * one : {&session, &*opened}) {
        ASSERT_TRUE(one->repair(texts.question).ok());
        ASSERT_TRUE(one->prefill(texts.question).ok());
    }
    EXPECT_TRUE(contents_of(*opened) == contents_of(session));
    EXPECT_GT(opened->ledger().cold_read_bytes, 0);
    const std::string again = testing::scratch_file("cold-again.pith").string();
    ASSERT_TRUE(opened->save(again).ok());  // of the file, and of what was evicted since
    auto twice = one_tiny_model().open_session(again, 1);
    ASSERT_TRUE(twice.ok()) << twice.status().message();
    EXPECT_TRUE(contents_of(*twice) == contents_of(session));
}

#if defined(__linux__)
// What of a mapped file this process has in memory.
size_t resident_bytes_of(const std::string & path) {
    std::ifstream all("/proc/self/smaps");
    size_t n = 0;
    bool ours = false;
    for (std::string line; std::getline(all, line);) {
        if (line.find(" kB") == std::string::npos) { ours = line.ends_with(path); }
        if (ours && line.starts_with("Rss:")) { n += std::stoul(line.substr(4)) * 1024; }
    }
    return n;
}

TEST(Repair, AFileOfMuchThatWasEvictedIsCheckedAndReadWithLittleOfItInMemory) {
    SessionOptions options = options_of("knorm", PrefillSchedule::kChunked, KvType::kF32, KvType::kF32);
    options.chunk = 512;
    options.context_shift = false;  // once keys have moved nothing is written any more
    Session session = open_tiny(options);
    ASSERT_TRUE(session.prefill(random_tokens(8000, 384)).ok());
    const std::string path = testing::scratch_file("much-cold.pith").string();
    ASSERT_TRUE(session.save(path).ok());
    const auto in_file = static_cast<size_t>(session.ledger().cold_bytes);
    ASSERT_GT(in_file, size_t{8} << 20U);
    const auto file = SessionFile::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_GT(resident_bytes_of(path), 0U) << "it is mapped under another name";
    EXPECT_LT(resident_bytes_of(path), in_file / 8);
    const auto opened = file->session(one_tiny_model(), 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    EXPECT_LT(resident_bytes_of(path), in_file / 8);
}
#endif

TEST(Repair, WhatFindsNoRoomOnDiskIsLostAndCounted) {
    const Texts texts;
    SessionOptions options = options_of("knorm", PrefillSchedule::kChunked, KvType::kF16, KvType::kF16);
    options.cold_bytes = 30000;
    Session session = open_tiny(options);
    ASSERT_TRUE(session.prefill(texts.context).ok());
    const Ledger & ledger = session.ledger();
    EXPECT_GT(ledger.cold_lost_entries, 0);
    EXPECT_GT(ledger.cold_entries, 0);
    EXPECT_LE(ledger.cold_bytes, 30000);
    EXPECT_EQ(ledger.cold_entries + ledger.cold_lost_entries, ledger.evicted_entries);
    EXPECT_TRUE(session.repair(texts.question).ok());
}

TEST(Repair, AQuestionOfAnyLengthIsAsked) {
    const std::vector<int32_t> tokens = random_tokens(kContext + 90, 384);
    const auto all = std::span(tokens);
    Session session = open_tiny(options_of("knorm", PrefillSchedule::kOneShot, KvType::kF16, KvType::kF16));
    ASSERT_TRUE(session.prefill(all.first(kContext)).ok());
    const auto before = lanes_below(session, kContext);
    ASSERT_TRUE(session.repair(all.last(90)).ok());  // more than are scored, and than a chunk
    const auto after = lanes_below(session, kContext);
    EXPECT_EQ(n_in_all(before), n_in_all(after));
    ASSERT_TRUE(session.repair(all.last(1)).ok());
    EXPECT_TRUE(session.prefill(all.last(90)).ok());
}

TEST(Repair, OnlyTellsWhereNothingIsToComeBack) {
    const Texts texts;
    Session session = open_tiny(options_of("knorm", PrefillSchedule::kOneShot, KvType::kF16, KvType::kQ8_0));
    ASSERT_TRUE(session.prefill(texts.context).ok());
    const auto before = contents_of(session);
    ASSERT_TRUE(session.repair(texts.question, /*brings_back=*/false).ok());
    EXPECT_GT(session.ledger().kv_missed, 0);
    EXPECT_TRUE(contents_of(session) == before);
}

TEST(Repair, RefusesByNameWhatItCannotDo) {
    const Texts texts;
    Session without = open_tiny(testing::tiny_options("knorm", kBudget, PrefillSchedule::kOneShot, 24));
    ASSERT_TRUE(without.prefill(texts.context).ok());
    EXPECT_NE(without.repair(texts.question).message().find("cold"), std::string::npos);
    Session session = open_tiny(options_of("knorm", PrefillSchedule::kOneShot, KvType::kF16, KvType::kQ8_0));
    EXPECT_EQ(session.repair(texts.question).code(), ErrorCode::kInvalidArgument);  // nothing was read
    ASSERT_TRUE(session.prefill(texts.context).ok());
    EXPECT_EQ(session.repair({}).code(), ErrorCode::kInvalidArgument);
}

// What came back leaves again behind the length that the model was trained on, where nothing comes back any more: a file of it
// is as whole as any.
TEST(Repair, WhatCameBackMayLeaveOnceKeysHaveMoved) {
    RandomModelSpec spec = testing::tiny_spec();
    spec.n_ctx_train = 160;
    const Model model = testing::tiny_model(spec).value();
    for (const int repair_every : {0, 1}) {  // 1: the token behind which they move looks, too
        SCOPED_TRACE(repair_every);
        SessionOptions options = options_of("knorm", PrefillSchedule::kChunked, KvType::kF16, KvType::kF16);
        options.evict_every = 8;
        options.repair_every = repair_every;
        auto session = model.session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        const auto tokens = random_tokens(400, 384);
        ASSERT_TRUE(session->prefill(std::span(tokens).first(100)).ok());
        ASSERT_TRUE(session->repair(std::span(tokens).subspan(100, 12)).ok());
        ASSERT_GT(session->ledger().returned_entries, 0);
        for (size_t i = 100; i < tokens.size(); ++i) { ASSERT_TRUE(session->append(tokens[i]).ok()); }
        const Ledger & ledger = session->ledger();
        EXPECT_EQ(ledger.n_answer_repairs > 0, repair_every > 0);
        EXPECT_GT(ledger.n_context_shifts, 0);
        EXPECT_GT(ledger.cold_lost_entries, 0);
        EXPECT_EQ(ledger.cold_entries + ledger.cold_lost_entries + ledger.kept_entries, 400 * ledger.n_lanes);
        const std::string path = testing::scratch_file("moved.pith").string();
        ASSERT_TRUE(session->save(path).ok());
        auto opened = model.open_session(path, 1);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        EXPECT_TRUE(contents_of(*opened).lanes == contents_of(*session).lanes);
        if (repair_every == 0) { EXPECT_TRUE(contents_of(*opened) == contents_of(*session)); }
    }
}

// A lane of 100 tokens; every third of the first 60 is here.
LaneOfBoth some_lane(const std::function<float(int32_t)> & paid) {
    LaneOfBoth lane;
    for (int32_t p = 0; p < 100; ++p) {
        lane.positions.push_back(p);
        lane.is_cold.push_back(p % 3 == 0 && p < 60 ? 0 : 1);
        lane.paid.push_back(paid(p));
        lane.is_protected.push_back(p == 3 ? 1 : 0);
    }
    return lane;
}

TEST(Swaps, WhatIsLookedForBringsTheTextAroundIt) {
    const LaneOfBoth lane = some_lane([](int32_t p) { return p == 70 ? 0.5F : p == 80 ? 0.25F : 0.0F; });
    const auto wants = wants_of(lane);
    const LaneSwaps swaps = choose_swaps(lane, wants, 31);
    EXPECT_EQ(swaps.in.size(), 30U);
    EXPECT_EQ(swaps.out.size(), 19U);
    for (int32_t p = 70 - kWantedAround; p <= 70 + kWantedAround; ++p) {
        EXPECT_TRUE(std::ranges::binary_search(swaps.in, p)) << p;
    }
    for (const int32_t p : swaps.in) { EXPECT_TRUE(p >= 70 - kWantedAround && p <= 80 + kWantedAround) << p; }
    EXPECT_FALSE(std::ranges::binary_search(swaps.out, 3));  // protected
    // Of fewer the entries that are looked for come first.
    const LaneSwaps few = choose_swaps(lane, wants, 2);
    EXPECT_EQ(few.in, std::vector<int32_t>{70});
    // Of what nobody wants that which is here stays.
    EXPECT_TRUE(choose_swaps(lane, std::vector<float>(100), 20).in.empty());
}

}  // namespace
}  // namespace pith::repair_test
