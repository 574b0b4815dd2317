// session_test.cpp - what a session promises: schedules that agree, budgets that hold, memory that goes, states that come back.
#include "pith/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/resident.h"
#include "engine/layer_probe.h"
#include "engine/tiny_model.h"

namespace pith::session_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

class SessionTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        auto model = tiny_model(tiny_spec());
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = new Model(*model);
    }
    static void TearDownTestSuite() {
        delete model_;
        model_ = nullptr;
    }
    static SessionOptions options_of(const std::string & policy, Budget budget) {
        SessionOptions options;
        options.policy = policy;
        options.budget = budget;
        options.n_threads = 1;
        return options;
    }
    static Session open(const SessionOptions & options) {
        auto session = model_->session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
    static std::vector<float> logits_after(const SessionOptions & options, const std::vector<int32_t> & tokens, int n_prompt) {
        Session session = open(options);
        const Status status = session.prefill(std::span(tokens).first(static_cast<size_t>(n_prompt)));
        EXPECT_TRUE(status.ok()) << status.message();
        std::vector<float> all(session.logits().begin(), session.logits().end());
        for (size_t i = static_cast<size_t>(n_prompt); i < tokens.size(); ++i) {
            EXPECT_TRUE(session.append(tokens[i]).ok());
            all.insert(all.end(), session.logits().begin(), session.logits().end());
        }
        return all;
    }
    static int64_t longest_lane(const Session & session) {
        size_t longest = 0;
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) { longest = std::max(longest, session.lane_positions(l, h).size()); }
        }
        return static_cast<int64_t>(longest);
    }
    static Model * model_;
};

Model * SessionTest::model_ = nullptr;

TEST_F(SessionTest, ABudgetThatHoldsEverythingGivesTheFullCachesLogitsToTheBit) {
    const auto tokens = random_tokens(120, model_->info().n_vocab);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions full = options_of("full", {});
        full.prefill = schedule;
        full.chunk = 32;
        const auto expected = logits_after(full, tokens, 100);
        for (const char * policy : {"random", "streaming", "window", "knorm", "h2o", "tova", "snapkv", "pyramidkv", "adakv"}) {
            SessionOptions options = options_of(policy, 120);
            options.prefill = schedule;
            options.chunk = 32;
            options.evict_every = 1;
            EXPECT_EQ(logits_after(options, tokens, 100), expected) << policy;
        }
    }
}

// The mask oracle has the logits of rotated rows; here, that they are rotated unless nobody wants it, and where it matters.
TEST_F(SessionTest, QuantisedRowsAloneAreRotatedAndOnlyUntilItIsSwitchedOff) {
    const auto tokens = random_tokens(120, model_->info().n_vocab);
    const auto logits_of = [&](KvType type_k, KvType type_v, bool rotates) {
        SessionOptions options = options_of("full", {});
        options.type_k = type_k;
        options.type_v = type_v;
        options.rotate_kv = rotates;
        return logits_after(options, tokens, 100);
    };
    const auto distance = [](const std::vector<float> & a, const std::vector<float> & b) {
        double squares = 0;
        double of_b = 0;
        for (size_t i = 0; i < a.size(); ++i) {
            squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
            of_b += double{b[i]} * b[i];
        }
        return std::sqrt(squares / of_b);
    };
    const auto exact = logits_of(KvType::kF32, KvType::kF32, true);
    EXPECT_EQ(logits_of(KvType::kF32, KvType::kF32, false), exact);
    EXPECT_EQ(logits_of(KvType::kF16, KvType::kBF16, false), logits_of(KvType::kF16, KvType::kBF16, true));
    for (const auto & [type_k, type_v] : {std::pair(KvType::kQ8_0, KvType::kQ8_0), std::pair(KvType::kQ8_0, KvType::kF32),
                                          std::pair(KvType::kF32, KvType::kQ8_0)}) {
        const auto rotated = logits_of(type_k, type_v, true);
        const auto as_they_are = logits_of(type_k, type_v, false);
        EXPECT_NE(rotated, as_they_are);
        EXPECT_LE(distance(rotated, exact), 1e-2);
        EXPECT_LE(distance(as_they_are, exact), 1e-2);
    }
}

TEST(SessionOfKeysWithABias, ComesAsCloseToTheUnroundedCacheRotatedAsItDoesOtherwise) {
    RandomModelSpec spec = tiny_spec();
    spec.arch = "qwen2";
    const auto model = tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(200, model->info().n_vocab);
    const auto logits_of = [&](KvType type, bool rotates) {
        SessionOptions options;
        options.policy = "full";
        options.type_k = options.type_v = type;
        options.rotate_kv = rotates;
        options.n_threads = 1;
        auto session = model->session(options);
        EXPECT_TRUE(session.ok());
        EXPECT_TRUE(session->prefill(std::span(tokens).first(199)).ok());
        EXPECT_TRUE(session->append(tokens.back()).ok());
        return std::vector<float>(session->logits().begin(), session->logits().end());
    };
    const auto exact = logits_of(KvType::kF32, true);
    const auto error = [&](const std::vector<float> & logits) {
        double squares = 0;
        for (size_t i = 0; i < exact.size(); ++i) {
            squares += (double{logits[i]} - double{exact[i]}) * (double{logits[i]} - double{exact[i]});
        }
        return std::sqrt(squares);
    };
    for (const KvType type : {KvType::kQ8_0, KvType::kQ4_0}) {
        EXPECT_LE(error(logits_of(type, true)), 1.5 * error(logits_of(type, false))) << to_string(type);
    }
}

TEST_F(SessionTest, OneShotAndChunkedPrefillAgreeToTheBitWhileNothingIsEvicted) {
    const auto tokens = random_tokens(90, model_->info().n_vocab);
    SessionOptions options = options_of("full", {});
    options.chunk = 32;
    options.prefill = PrefillSchedule::kOneShot;
    const auto one_shot = logits_after(options, tokens, 80);
    options.prefill = PrefillSchedule::kChunked;
    EXPECT_EQ(logits_after(options, tokens, 80), one_shot);
}

TEST_F(SessionTest, EveryLaneStaysWithinItsBudgetOnALongStreamAndMemoryStaysFlat) {
    SessionOptions options = options_of("streaming", 256);
    options.chunk = 256;
    options.evict_every = 64;
    Session session = open(options);
    const auto tokens = random_tokens(20000, model_->info().n_vocab);
    size_t allocated = 0;
    size_t resident = 0;
    int64_t n_done = 0;
    RunHooks hooks;
    hooks.progress = [&](int64_t done, int64_t) {
        EXPECT_LE(longest_lane(session), 256);
        n_done = done;
        if (done >= 4096 && allocated == 0) { resident = resident_bytes().anonymous; }
    };
    ASSERT_TRUE(session.prefill(std::span(tokens).first(10000), hooks).ok());
    EXPECT_EQ(n_done, 10000);
    EXPECT_EQ(session.ledger().kept_entries, 256 * 3 * 2);
    allocated = session.ledger().kv_allocated_bytes;
    const auto expect_flat = [&] {
        EXPECT_NEAR(static_cast<double>(resident_bytes().anonymous), static_cast<double>(resident),
                    0.02 * static_cast<double>(resident));
    };
    expect_flat();
    int64_t n_evictions = session.ledger().n_evictions;
    for (size_t i = 10000; i < tokens.size(); ++i) {
        ASSERT_TRUE(session.append(tokens[i]).ok());
        if (i == 10200) { resident = resident_bytes().anonymous; }  // the graph that decoding keeps is there by now
        const bool evicted = session.ledger().n_evictions > n_evictions;
        n_evictions = session.ledger().n_evictions;
        ASSERT_LE(longest_lane(session), evicted ? 256 : 256 + 64);
    }
    EXPECT_EQ(session.n_tokens(), 20000);
    EXPECT_EQ(session.ledger().peak_lane_entries, 512);
    EXPECT_LE(session.ledger().kv_allocated_bytes, allocated + 64U * 6U * 128U + 12U * 4096U);
    expect_flat();
}

TEST_F(SessionTest, ByteBudgetsBoundThePeakOfEverySchedule) {
    const auto tokens = random_tokens(1300, model_->info().n_vocab);
    for (const char * policy : {"snapkv", "adakv", "h2o"}) {
        for (const PrefillSchedule schedule : {PrefillSchedule::kAuto, PrefillSchedule::kChunked, PrefillSchedule::kOneShot}) {
            const double bytes = schedule == PrefillSchedule::kOneShot ? 8e5 : 3e5;
            SessionOptions options = options_of(policy, Budget(BudgetKind::kBytes, bytes));
            options.prefill = schedule;
            Session session = open(options);
            const Status status = session.prefill(std::span(tokens).first(1100));
            ASSERT_TRUE(status.ok()) << policy << ": " << status.message();
            for (size_t i = 1100; i < tokens.size(); ++i) { ASSERT_TRUE(session.append(tokens[i]).ok()); }
            ASSERT_TRUE(session.prefill(std::span(tokens).first(1024)).ok());  // the next turn
            EXPECT_LE(session.ledger().kv_peak_bytes, static_cast<size_t>(bytes)) << policy;
            EXPECT_GE(session.ledger().kv_peak_bytes, static_cast<size_t>(bytes / 4)) << policy;
        }
    }
}

TEST_F(SessionTest, OneShotPrefillHoldsAtMostOneFullLayer) {
    const auto tokens = random_tokens(2000, model_->info().n_vocab);
    SessionOptions options = options_of("snapkv", 128);
    options.prefill = PrefillSchedule::kOneShot;
    Session session = open(options);
    ASSERT_TRUE(session.prefill(tokens).ok());
    const Ledger & ledger = session.ledger();
    const size_t entry = 2 * 32 * 2;
    EXPECT_EQ(ledger.kept_entries, 128 * 6);
    EXPECT_LE(ledger.kv_allocated_bytes, 128 * 6 * entry + 12 * 4096);
    EXPECT_LE(ledger.kv_peak_bytes, 128 * 4 * entry + 2000 * 2 * entry + 12 * 4096);
    EXPECT_EQ(ledger.evicted_entries, (2000 - 128) * 6);
}

TEST_F(SessionTest, ComesBackToASnapshotWithAndWithoutEvictionInBetween) {
    const auto tokens = random_tokens(400, model_->info().n_vocab);
    for (const char * policy : {"snapkv:window=8", "h2o:recent=8", "tova:recent=8"}) {
        SessionOptions options = options_of(policy, 64);
        options.evict_every = 16;
        options.chunk = 32;
        Session session = open(options);
        ASSERT_TRUE(session.prefill(std::span(tokens).first(200)).ok());
        auto snapshot = session.snapshot();
        ASSERT_TRUE(snapshot.ok());
        for (const size_t n_more : {5U, 120U, 120U, 3U}) {
            std::vector<std::vector<float>> rounds;
            for (int round = 0; round < 2; ++round) {
                ASSERT_TRUE(session.prefill(std::span(tokens).subspan(200, n_more)).ok());
                for (size_t i = 0; i < 20; ++i) { ASSERT_TRUE(session.append(tokens[350 + i]).ok()); }
                rounds.emplace_back(session.logits().begin(), session.logits().end());
                ASSERT_TRUE(session.restore(*snapshot).ok());
                EXPECT_EQ(session.n_tokens(), 200);
            }
            EXPECT_EQ(rounds[0], rounds[1]) << policy << ", " << n_more << " tokens";
        }
    }
}

TEST_F(SessionTest, OlderSnapshotsStayTrueWhenNewerOnesAreRestored) {
    const auto tokens = random_tokens(300, model_->info().n_vocab);
    SessionOptions options = options_of("snapkv:window=8", 64);
    options.evict_every = 16;
    Session session = open(options);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(150)).ok());
    const auto a = session.snapshot();
    ASSERT_TRUE(session.prefill(std::span(tokens).subspan(150, 10)).ok());
    const auto b = session.snapshot();
    const auto probe = [&](const auto & snapshot) {
        EXPECT_TRUE(session.restore(*snapshot).ok());
        EXPECT_TRUE(session.append(7).ok());
        return std::vector<float>(session.logits().begin(), session.logits().end());
    };
    const auto b1 = probe(b);
    const auto a1 = probe(a);
    ASSERT_TRUE(session.prefill(std::span(tokens).subspan(200, 60)).ok());
    EXPECT_EQ(probe(b), b1);
    EXPECT_EQ(probe(a), a1);
    EXPECT_EQ(probe(b), b1);
}

TEST_F(SessionTest, AfterARestoreTheLedgerTellsTheScheduleOfThatState) {
    const auto tokens = random_tokens(200, model_->info().n_vocab);
    SessionOptions options = options_of("h2o", 64);
    options.chunk = 32;
    Session session = open(options);
    const auto empty = session.snapshot();
    ASSERT_TRUE(empty.ok());
    ASSERT_TRUE(session.prefill(tokens).ok());
    EXPECT_EQ(session.ledger().schedule, "in chunks");
    const auto read = session.snapshot();
    ASSERT_TRUE(read.ok());
    ASSERT_TRUE(session.restore(*empty).ok());
    EXPECT_EQ(session.ledger().schedule, "");
    ASSERT_TRUE(session.prefill(std::span(tokens).first(40)).ok());
    EXPECT_EQ(session.ledger().schedule, "one-shot");
    ASSERT_TRUE(session.restore(*read).ok());
    EXPECT_EQ(session.ledger().schedule, "in chunks");
}

// A token that fails half-way takes the cache with it, but no snapshot.
TEST_F(SessionTest, SnapshotsOutliveATokenThatFails) {
    const auto tokens = random_tokens(60, model_->info().n_vocab);
    for (const char * policy : {"full", "h2o:recent=4"}) {
        const SessionOptions options = options_of(policy, std::string_view(policy) == "full" ? Budget() : Budget(100));
        Session session = open(options);
        ASSERT_TRUE(session.prefill(tokens).ok());
        const auto snapshot = session.snapshot();
        ASSERT_TRUE(snapshot.ok());
        LayerProbe layers(session);
        layers.set_query_observer([](int layer, std::span<const float>, int, int32_t) -> Status {
            return layer == 1 ? Status(ErrorCode::kOutOfMemory, "injected") : Status();
        });
        EXPECT_EQ(session.append(7).message(), "injected");
        layers.set_query_observer({});
        ASSERT_TRUE(session.restore(*snapshot).ok());
        EXPECT_EQ(session.n_tokens(), 60);
        EXPECT_EQ(longest_lane(session), 60) << policy;

        Session undisturbed = open(options);
        ASSERT_TRUE(undisturbed.prefill(tokens).ok());
        ASSERT_TRUE(session.append(9).ok() && undisturbed.append(9).ok());
        EXPECT_TRUE(std::ranges::equal(session.logits(), undisturbed.logits())) << policy;
    }
}

TEST_F(SessionTest, ACancelledPrefillLeavesAnEmptySessionThatCanBeUsedAgain) {
    const auto tokens = random_tokens(300, model_->info().n_vocab);
    SessionOptions options = options_of("snapkv", 64);
    options.chunk = 32;
    const auto expected = logits_after(options, tokens, 300);
    Session session = open(options);
    std::atomic<bool> cancel = false;
    RunHooks hooks;
    hooks.cancel = &cancel;
    hooks.progress = [&](int64_t done, int64_t) { cancel = done > 100; };
    EXPECT_EQ(session.prefill(tokens, hooks).code(), ErrorCode::kCancelled);
    EXPECT_EQ(session.n_tokens(), 0);
    EXPECT_EQ(session.ledger().kept_entries, 0);
    ASSERT_TRUE(session.prefill(tokens).ok());
    EXPECT_TRUE(std::ranges::equal(session.logits(), expected));
}

TEST_F(SessionTest, ATokenThatIsCancelledBeforeItIsReadTakesNothingAway) {
    const auto tokens = random_tokens(60, model_->info().n_vocab);
    Session session = open(options_of("full", {}));
    ASSERT_TRUE(session.prefill(tokens).ok());
    const std::atomic<bool> cancel = true;
    RunHooks hooks;
    hooks.cancel = &cancel;
    for (const size_t n : {1U, 2U}) {
        EXPECT_EQ(session.prefill(std::span(tokens).first(n), hooks).code(), ErrorCode::kCancelled);
        EXPECT_EQ(session.n_tokens(), 60) << n;
    }
    EXPECT_TRUE(session.append(7).ok());
}

// A second prompt adds to the moments of the queries before it: those of before are kept until it has succeeded.
TEST_F(SessionTest, TheLedgersPeakOfEvidenceCountsWhatAnOpenCallWouldGoBackTo) {
    SessionOptions options = options_of("full", Budget());
    options.observe = {"expected:future=8"};
    Session session = open(options);
    const auto tokens = random_tokens(220, tiny_spec().n_vocab);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(200)).ok());
    const size_t before = LayerProbe(session).evidence().size_bytes();
    ASSERT_TRUE(session.prefill(std::span(tokens).last(20)).ok());
    const size_t after = LayerProbe(session).evidence().size_bytes();
    EXPECT_GT(before, 0U);
    EXPECT_GE(session.ledger().evidence_peak_bytes, after + before / 2);
}

TEST_F(SessionTest, BadRequestsAreErrorsThatNameTheValue) {
    const auto tokens = random_tokens(300, model_->info().n_vocab);
    const auto error = [&](const SessionOptions & options, std::span<const int32_t> prompt) {
        auto session = model_->session(options);
        return session.ok() ? session->prefill(prompt) : session.status();
    };
    const auto expect = [&](const Status & status, ErrorCode code, const std::string & part) {
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    };
    expect(error(options_of("full", {}), {}), ErrorCode::kInvalidArgument, "empty");
    expect(error(options_of("full", {}), std::vector<int32_t>{1, 99999}), ErrorCode::kInvalidArgument, "99999");
    expect(error(options_of("snapkv", 20), tokens), ErrorCode::kBudget, "20");
    expect(error(options_of("snapkv:window=400", 64), tokens), ErrorCode::kBudget, "window");
    expect(error(options_of("full", 64), tokens), ErrorCode::kInvalidArgument, "full");
    expect(error(options_of("snapkv", {}), tokens), ErrorCode::kInvalidArgument, "add budget");
    expect(error(options_of("snapkv", Budget(BudgetKind::kBytes, 1000)), tokens), ErrorCode::kBudget,
           "for 32 protected tokens per head and a chunk of 16: use budget 84K or more");
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const Budget & none : {Budget(0), Budget(-5), Budget(BudgetKind::kEntries, nan), Budget(BudgetKind::kPercent, 0),
                                Budget(BudgetKind::kBytes, nan)}) {
        expect(error(options_of("snapkv", none), tokens), ErrorCode::kInvalidArgument, "the budget is ");
        expect(error(options_of("auto", none), tokens), ErrorCode::kInvalidArgument, "the budget is ");
        SessionOptions later = options_of("full", {});
        later.observe = {"snapkv"};
        Session session = open(later);
        ASSERT_TRUE(session.prefill(tokens).ok());
        expect(session.evict("snapkv", none), ErrorCode::kInvalidArgument, "the budget is ");
        EXPECT_EQ(session.ledger().evicted_entries, 0);
    }
    SessionOptions quantised = options_of("full", {});
    quantised.chunk = 0;
    expect(error(quantised, tokens), ErrorCode::kInvalidArgument, "chunk 0");
}

}  // namespace
}  // namespace pith::session_test
