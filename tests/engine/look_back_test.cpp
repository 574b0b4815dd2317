// look_back_test.cpp - a prompt that looks back is read, bit for bit, as by a cache that holds all of it; lanes stay within
// their budget all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/layer_probe.h"
#include "engine/pass/live_session.h"
#include "engine/pass/paid_behind.h"
#include "engine/session_state.h"
#include "engine/tiny_session.h"
#include "model/architecture_files.h"

namespace pith::look_back_test {
namespace {

using testing::architecture_files;
using testing::ArchitectureFile;
using testing::contents_of;
using testing::one_tiny_model;
using testing::open_tiny;
using testing::random_tokens;

constexpr int kContext = 132;
constexpr int kBudget = 40;
constexpr int kChunk = 24;

SessionOptions options_of(const std::string & policy, KvType type, KvType cold) {
    SessionOptions options = testing::tiny_options(policy, kBudget, PrefillSchedule::kChunked, kChunk);
    options.type_k = options.type_v = type;
    options.evict_every = 8;
    options.cold = cold;
    options.look_back = true;
    return options;
}

SessionOptions full_options(KvType type) {
    SessionOptions options = testing::tiny_options("full", 0, PrefillSchedule::kChunked, kChunk);
    options.type_k = options.type_v = type;
    return options;
}

// Of all tokens: of a first prompt, and of two that follow.
std::vector<float> logits_of(Session & session, std::span<const int32_t> tokens) {
    std::vector<float> rows;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); };
    for (const auto & [begin, n] : {std::pair{size_t{0}, size_t{84}}, std::pair{size_t{84}, size_t{1}}}) {
        EXPECT_TRUE(session.prefill(tokens.subspan(begin, n), hooks).ok());
    }
    const Status status = session.prefill(tokens.subspan(85), hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    return rows;
}

// The rows of K and V of what a lane holds.
std::vector<std::vector<uint8_t>> rows_of(Session & session, int layer, int kv_head) {
    const RaggedCache & cache = LayerProbe(session).cache();
    const LaneRows rows = cache.layout().rows(layer);
    std::vector<std::vector<uint8_t>> all;
    for (int i = 0; i < cache.length(cache.lane(0, layer, kv_head)); ++i) {
        std::vector<uint8_t> & one = all.emplace_back(rows.bytes());
        cache.read(0, layer, kv_head, i, 1, one.data(), one.data() + rows.bytes_k());
    }
    return all;
}

// What the session keeps is what the full cache has at these positions.
void expect_rows_of(Session & session, Session & full) {
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < LayerProbe(session).cache().n_kv_heads(l); ++h) {
            const auto here = session.lane_positions(l, h);
            const auto all = full.lane_positions(l, h);
            const auto rows = rows_of(session, l, h);
            const auto rows_of_all = rows_of(full, l, h);
            for (size_t i = 0; i < here.size(); ++i) {
                const auto at = static_cast<size_t>(std::ranges::lower_bound(all, here[i]) - all.begin());
                ASSERT_LT(at, all.size());
                EXPECT_EQ(rows[i], rows_of_all[at]) << "layer " << l << ", head " << h << ", position " << here[i];
            }
        }
    }
}

class LookBack : public ::testing::TestWithParam<const char *> {};

TEST_P(LookBack, APromptIsReadAsByACacheThatHoldsAllOfIt) {
    const auto tokens = random_tokens(kContext, 384);
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0, KvType::kQ4_0}) {
        SCOPED_TRACE(std::string(to_string(type)));
        Session full = open_tiny(full_options(type));
        Session session = open_tiny(options_of(GetParam(), type, type));
        EXPECT_EQ(logits_of(session, tokens), logits_of(full, tokens));
        expect_rows_of(session, full);
        const Ledger & ledger = session.ledger();
        EXPECT_GT(ledger.cold_entries, 0);
        EXPECT_EQ(ledger.cold_entries + ledger.kept_entries, int64_t{kContext} * ledger.n_lanes);
        EXPECT_LE(ledger.kept_entries, int64_t{kBudget + kChunk} * ledger.n_lanes);
        EXPECT_GT(ledger.cold_read_bytes, 0);
    }
}

TEST_P(LookBack, WithoutItAPromptSeesTheBudgetAlone) {
    const auto tokens = random_tokens(kContext, 384);
    Session full = open_tiny(full_options(KvType::kF32));
    SessionOptions options = options_of(GetParam(), KvType::kF32, KvType::kF32);
    options.look_back = false;
    Session session = open_tiny(options);
    EXPECT_NE(logits_of(session, tokens), logits_of(full, tokens));
    EXPECT_EQ(session.ledger().look_back_s, 0);
}

// Tokens of an answer see what is kept; what they leave is as if nobody had looked back in between.
TEST_P(LookBack, WhatFollowsIsEvictedAndSavedAsEver) {
    const auto tokens = random_tokens(kContext + 60, 384);
    Session session = open_tiny(options_of(GetParam(), KvType::kF16, KvType::kQ8_0));
    ASSERT_TRUE(session.prefill(std::span(tokens).first(100)).ok());
    const auto before = session.snapshot().value();
    const auto contents = contents_of(session);
    ASSERT_TRUE(session.repair(std::span(tokens).subspan(100, 12)).ok());
    ASSERT_TRUE(session.prefill(std::span(tokens).subspan(100, 12)).ok());
    for (size_t i = 0; i < 40; ++i) { ASSERT_TRUE(session.append(tokens[112 + i]).ok()); }
    const Ledger & ledger = session.ledger();
    EXPECT_EQ(ledger.cold_entries + ledger.kept_entries, session.n_tokens() * ledger.n_lanes);
    EXPECT_LE(ledger.kept_entries, int64_t{kBudget + kChunk} * ledger.n_lanes);

    const std::string path = testing::scratch_file("looks-back.pith").string();
    ASSERT_TRUE(session.save(path).ok());
    auto opened = one_tiny_model().open_session(path, 1);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto rest = std::span(tokens).subspan(152, 30);
    ASSERT_TRUE(session.prefill(rest).ok());
    ASSERT_TRUE(opened->prefill(rest).ok());
    EXPECT_GT(opened->ledger().look_back_s, 0);
    EXPECT_TRUE(contents_of(*opened) == contents_of(session));

    ASSERT_TRUE(session.restore(before).ok());
    EXPECT_TRUE(contents_of(session) == contents);
}

INSTANTIATE_TEST_SUITE_P(Policies, LookBack,
                         ::testing::Values("knorm", "h2o", "snapkv:window=8+ada", "expected", "keydiff", "compactor", "reread",
                                           "criticalkv:window=8"));

// A question that is read once: what comes back is chosen behind it, and is what repair() in front of it brings.
TEST_P(LookBack, WhatAQuestionLooksForComesBackBehindItAsInFrontOfIt) {
    const auto tokens = random_tokens(kContext, 384);
    const auto question = std::span(tokens).subspan(100, 12);
    RunHooks looks;
    looks.repair = true;
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {  // cold as kept: nothing is rounded on the way
        SCOPED_TRACE(std::string(to_string(type)));
        SessionOptions options = options_of(GetParam(), type, type);
        options.evict_every = kChunk;  // nothing is evicted behind it: what had come back might leave again
        Session in_front = open_tiny(options);
        Session behind = open_tiny(options);
        for (Session * one : {&in_front, &behind}) { ASSERT_TRUE(one->prefill(std::span(tokens).first(100)).ok()); }
        ASSERT_TRUE(in_front.repair(question).ok());
        ASSERT_TRUE(in_front.prefill(question).ok());
        const auto before = behind.ledger().cold_read_bytes;
        ASSERT_TRUE(behind.prefill(question, looks).ok());
        EXPECT_TRUE(std::ranges::equal(behind.logits(), in_front.logits()));
        EXPECT_LT(behind.ledger().cold_read_bytes - before, in_front.ledger().cold_read_bytes - before);
        EXPECT_GT(behind.ledger().returned_entries, 0);
        EXPECT_EQ(behind.ledger().returned_entries, in_front.ledger().returned_entries);
        EXPECT_NEAR(behind.ledger().kv_missed, in_front.ledger().kv_missed, 1e-4);  // there of keys in f16
        int n_others = 0;  // lanes in which entries that are wanted almost alike change places: in front keys are read in f16
        for (int l = 0; l < behind.n_layers(); ++l) {
            for (int h = 0; h < behind.n_kv_heads(); ++h) {
                EXPECT_EQ(behind.lane_positions(l, h).size(), in_front.lane_positions(l, h).size());
                if (!std::ranges::equal(behind.lane_positions(l, h), in_front.lane_positions(l, h))) {
                    ++n_others;
                    continue;
                }
                EXPECT_TRUE(rows_of(behind, l, h) == rows_of(in_front, l, h)) << "layer " << l << ", head " << h;
            }
        }
        EXPECT_LE(n_others, type == KvType::kQ8_0 ? 1 : 0);
        EXPECT_TRUE(LayerProbe(behind).evidence().needs() == LayerProbe(in_front).evidence().needs());
        for (size_t i = 112; i < tokens.size(); ++i) { ASSERT_TRUE(behind.append(tokens[i]).ok()); }
        EXPECT_EQ(behind.ledger().cold_entries + behind.ledger().kept_entries, kContext * behind.ledger().n_lanes);
    }
}

// So what was evicted is read from disk once.
TEST_P(LookBack, WhatAQuestionPaysIsSeenWhileAllIsThere) {
    const auto tokens = random_tokens(kContext, 384);
    Session session = open_tiny(options_of(GetParam(), KvType::kF16, KvType::kF16));
    Session full = open_tiny(full_options(KvType::kF16));
    for (Session * one : {&session, &full}) { ASSERT_TRUE(one->prefill(std::span(tokens).first(60)).ok()); }
    LiveSession & live = live_session(session);
    PaidBehind paid(live, 60, 90);  // of two chunks the tokens from the middle of the second on
    ASSERT_TRUE(live.seq.evidence.widen({.window = 10, .window_max = true}));
    live.asking = &paid;
    for (const auto & [begin, n] : {std::pair{size_t{60}, size_t{24}}, std::pair{size_t{84}, size_t{16}}}) {
        for (Session * one : {&session, &full}) { ASSERT_TRUE(one->prefill(std::span(tokens).subspan(begin, n)).ok()); }
    }
    live.asking = nullptr;
    EXPECT_TRUE(paid.is_whole(live, 10));
    EXPECT_FALSE(paid.is_whole(live, 11));
    for (int l = 0; l < session.n_layers(); ++l) {
        for (int h = 0; h < session.n_kv_heads(); ++h) {
            const auto sums = paid.of(live.seq.cache->lane(0, l, h));
            ASSERT_EQ(sums.size(), 60U);
            for (const float one : sums) { EXPECT_GT(one, 0); }
            const float all = std::accumulate(sums.begin(), sums.end(), 0.0F);
            EXPECT_LT(all, 10.0F * static_cast<float>(live.shape().n_group)) << "more than they have to pay";
        }
    }
}

// Longer than a chunk: some of it is evicted before it has been read, and its end may look for that, too.
TEST_P(LookBack, WhatALongQuestionLooksForComesBackWithinTheBudget) {
    const auto tokens = random_tokens(kContext, 384);
    const auto question = std::span(tokens).subspan(70);
    RunHooks looks;
    looks.repair = true;
    Session full = open_tiny(full_options(KvType::kF16));
    Session session = open_tiny(options_of(GetParam(), KvType::kF16, KvType::kF16));
    Session without = open_tiny(options_of(GetParam(), KvType::kF16, KvType::kF16));
    for (Session * one : {&full, &session, &without}) { ASSERT_TRUE(one->prefill(std::span(tokens).first(70)).ok()); }
    ASSERT_TRUE(session.prefill(question, looks).ok());
    for (Session * one : {&full, &without}) { ASSERT_TRUE(one->prefill(question).ok()); }
    EXPECT_TRUE(std::ranges::equal(session.logits(), full.logits()));
    expect_rows_of(session, full);
    EXPECT_GT(session.ledger().returned_entries, 0);
    EXPECT_EQ(session.ledger().kept_entries, without.ledger().kept_entries);
    EXPECT_EQ(session.ledger().cold_entries, without.ledger().cold_entries);
}

// What an eviction on the way finds no room for is gone: the question is compared with what is left.
TEST(LookBack, WhatIsLostWhileAQuestionIsReadIsNotLookedFor) {
    const auto tokens = random_tokens(kContext, 384);
    SessionOptions options = options_of("knorm", KvType::kF16, KvType::kF16);
    RunHooks looks;
    looks.repair = true;
    int n_lost_meanwhile = 0;
    for (const uint64_t bytes : {12000U, 20000U, 28000U, 36000U, 44000U}) {
        options.cold_bytes = bytes;
        Session session = open_tiny(options);
        ASSERT_TRUE(session.prefill(std::span(tokens).first(60)).ok());
        const int64_t lost_before = session.ledger().cold_lost_entries;
        const Status status = session.prefill(std::span(tokens).subspan(60), looks);
        ASSERT_TRUE(status.ok()) << status.message();
        const Ledger & ledger = session.ledger();
        n_lost_meanwhile += lost_before == 0 && ledger.cold_lost_entries > 0 ? 1 : 0;
        EXPECT_GT(ledger.kv_missed, 0);
        EXPECT_EQ(ledger.kept_entries + ledger.cold_entries + ledger.cold_lost_entries, kContext * ledger.n_lanes) << bytes;
    }
    EXPECT_GT(n_lost_meanwhile, 0);
}

TEST(LookBack, OnlyWhoLooksBackChoosesBehindAQuestion) {
    SessionOptions options = options_of("knorm", KvType::kF16, KvType::kF16);
    options.look_back = false;
    Session session = open_tiny(options);
    const auto tokens = random_tokens(kContext, 384);
    ASSERT_TRUE(session.prefill(tokens).ok());
    EXPECT_FALSE(session.looks_back());
    RunHooks looks;
    looks.repair = true;
    const auto before = contents_of(session);
    const Status refused = session.prefill(std::span(tokens).first(8), looks);
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("look_back"), std::string::npos) << refused.message();
    EXPECT_TRUE(contents_of(session) == before);

    options.look_back = true;
    Session looking = open_tiny(options);
    ASSERT_TRUE(looking.prefill(tokens).ok());
    looks.is_answer = true;
    EXPECT_EQ(looking.prefill(std::span(tokens).first(8), looks).code(), ErrorCode::kInvalidArgument);
}

// Of every chunk, though what came back leaves in between.
TEST(LookBack, WhatIsReadAgainIsToldOfAllThatIsKept) {
    const auto tokens = random_tokens(kContext, 384);
    Session session = open_tiny(options_of("reread", KvType::kF16, KvType::kF16));
    ASSERT_TRUE(session.prefill(tokens).ok());
    const EvidenceState & evidence = LayerProbe(session).evidence();
    for (int l = 0; l < session.n_layers(); ++l) {
        for (size_t head = 0; head < evidence.layer(l).reread.size(); ++head) {
            const auto most = evidence.layer(l).reread[head].values();
            EXPECT_EQ(most.size(), session.lane_positions(l, static_cast<int>(head) / 2).size());
            for (const float one : most) { EXPECT_GT(one, 0) << "layer " << l << ", head " << head; }
        }
    }
}

TEST(LookBack, BytesBoundWhatComesBackToo) {
    const auto tokens = random_tokens(1500, 384);
    SessionOptions options = options_of("knorm", KvType::kF16, KvType::kF16);
    options.budget = Budget(BudgetKind::kBytes, 512.0 * 1024);
    options.max_context = 1500;
    Session session = open_tiny(options);
    RunHooks looks;
    looks.repair = true;
    const auto question = std::span(tokens).last(20);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(1480)).ok());
    ASSERT_TRUE(session.prefill(question, looks).ok());  // it sees the newest; all are compared with it
    EXPECT_GT(session.ledger().cold_read_bytes, 0);
    EXPECT_GT(session.ledger().returned_entries, 0);
    EXPECT_LE(session.ledger().kv_peak_bytes, size_t{512} << 10U);
    // And where nothing is left of them, nothing comes back.
    options.budget = Budget(BudgetKind::kBytes, 230.0 * 1024);
    Session small = open_tiny(options);
    const Status status = small.prefill(tokens);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_LE(small.ledger().kv_peak_bytes, size_t{230} << 10U);
}

TEST(LookBack, RefusesByNameWhatItCannotDo) {
    SessionOptions options = options_of("knorm", KvType::kF16, KvType::kF16);
    options.cold.reset();
    const auto refused = one_tiny_model().session(options);
    EXPECT_EQ(refused.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.status().message().find("look_back"), std::string::npos) << refused.status().message();
    EXPECT_NE(refused.status().message().find("cold"), std::string::npos) << refused.status().message();
}

// Layers that see a window, that read others' lanes, that hold states, experts.
class LookBackOf : public ::testing::TestWithParam<ArchitectureFile> {};

TEST_P(LookBackOf, EveryArchitectureReadsAsACacheThatHoldsAllOfIt) {
    const std::string path = testing::scratch_file("looks-back.gguf");
    ASSERT_TRUE(write_architecture_file(GetParam(), path));
    const auto model = Model::load(path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kContext, model->info().n_vocab);
    auto full = model->session(full_options(KvType::kF16));
    auto session = model->session(options_of("knorm", KvType::kF16, KvType::kF16));
    ASSERT_TRUE(full.ok() && session.ok()) << session.status().message();
    EXPECT_EQ(logits_of(*session, tokens), logits_of(*full, tokens));
}

TEST_P(LookBackOf, EveryArchitectureChoosesBehindAQuestionAsInFrontOfIt) {
    const std::string path = testing::scratch_file("chooses-behind.gguf");
    ASSERT_TRUE(write_architecture_file(GetParam(), path));
    const auto model = Model::load(path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(112, model->info().n_vocab);
    const auto question = std::span(tokens).subspan(100);
    SessionOptions options = options_of("knorm", KvType::kF16, KvType::kF16);
    options.evict_every = kChunk;
    auto in_front = model->session(options);
    auto behind = model->session(options);
    ASSERT_TRUE(in_front.ok() && behind.ok()) << behind.status().message();
    for (Session * one : {&*in_front, &*behind}) { ASSERT_TRUE(one->prefill(std::span(tokens).first(100)).ok()); }
    RunHooks looks;
    looks.repair = true;
    ASSERT_TRUE(behind->prefill(question, looks).ok());
    ASSERT_TRUE(in_front->repair(question).ok());
    ASSERT_TRUE(in_front->prefill(question).ok());
    EXPECT_GT(behind->ledger().returned_entries, 0);
    EXPECT_EQ(behind->ledger().returned_entries, in_front->ledger().returned_entries);
    EXPECT_TRUE(std::ranges::equal(behind->logits(), in_front->logits()));
    for (int l = 0; l < behind->n_layers(); ++l) {
        for (int h = 0; h < behind->n_kv_heads(); ++h) {
            EXPECT_TRUE(std::ranges::equal(behind->lane_positions(l, h), in_front->lane_positions(l, h))) << l << ", " << h;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, LookBackOf, ::testing::ValuesIn(architecture_files()),
                         [](const auto & of) { return of.param.name; });

}  // namespace
}  // namespace pith::look_back_test
