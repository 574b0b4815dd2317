// transaction_test.cpp - a call that fails leaves the session as it was, bit for bit, whatever it was that failed; the same
// call then gives what it would have given.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "engine/fail_everywhere.h"
#include "engine/gated_model.h"
#include "engine/parts/model_parts.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"
#include "model/random_lora.h"

namespace pith::transaction_test {
namespace {

using testing::fail_everywhere;
using testing::random_tokens;
using testing::SessionState;
using testing::state_of;

using Call = testing::FailingCall;

constexpr int kChunk = 16;
constexpr int kBudget = 40;
constexpr int kEvery = 8;

struct Case {
    const char * policy;
    PrefillSchedule prefill = PrefillSchedule::kOneShot;
    bool gated = false;
    Budget budget = kBudget;
};
std::ostream & operator<<(std::ostream & out, const Case & c) {
    return out << c.policy << (c.prefill == PrefillSchedule::kOneShot ? " one-shot" : " in chunks");
}

class Transaction : public ::testing::TestWithParam<Case> {
protected:
    static Result<Model> make_model() {
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = 2;
        spec.n_ctx_train = 100;  // behind so many, kept keys turn
        if (!GetParam().gated) { return testing::tiny_model(spec); }
        GateConfig gate = testing::even_gate();
        gate.causal = true;
        return testing::gated_model(spec, gate);
    }
    static Session open(const Model & model) {
        SessionOptions options;
        options.policy = GetParam().policy;
        options.budget = GetParam().budget;
        options.prefill = GetParam().prefill;
        options.chunk = kChunk;
        options.evict_every = kEvery;
        options.n_threads = 1;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
};

TEST_P(Transaction, WhateverFailsTheSessionIsAsItWas) {
    const auto model = make_model();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(200, model->info().n_vocab);
    const auto feed = [&](int begin, int n) {
        return Call([&, begin, n](Session & session) {
            return session.prefill(std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)));
        });
    };
    const Call append = [&](Session & session) { return session.append(tokens[static_cast<size_t>(session.n_tokens())]); };

    Session session = open(*model);
    Session twin = open(*model);
    const auto same = [&] {
        bool all = std::ranges::equal(session.logits(), twin.logits());
        for (int l = 0; l < session.n_layers(); ++l) {
            for (int h = 0; h < session.n_kv_heads(); ++h) {
                all = all && std::ranges::equal(session.lane_positions(l, h), twin.lane_positions(l, h));
            }
        }
        return all;
    };
    const auto both = [&](const Call & call, int64_t n_least) {
        EXPECT_GE(fail_everywhere(session, call), n_least);
        EXPECT_TRUE(call(twin).ok());
        EXPECT_TRUE(same());
    };
    both(feed(0, 80), 50);
    both(feed(80, 40), 50);  // evicted on the way
    for (int i = 0; i < kEvery && !HasFailure(); ++i) { both(append, 1); }
}

// One prefill for many policies: what is evicted, remembered and brought back.
TEST(Transactions, EvictingRememberingAndComingBackFailWithoutATrace) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(100, model->info().n_vocab);
    SessionOptions options;
    options.policy = "full";
    options.observe = {"snapkv:window=8:pool=avg5", "laprox:window=8", "h2o:recent=8+fastcaote"};
    options.n_threads = 1;
    auto session = model->session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(tokens).ok());
    const auto full = session->snapshot();
    ASSERT_TRUE(full.ok());
    for (const PolicyChoice & policy : options.observe) {
        SCOPED_TRACE(policy.name());
        EXPECT_GT(fail_everywhere(*session, [&](Session & s) { return s.evict(policy, kBudget); }), 10);
        EXPECT_GT(fail_everywhere(*session, [](Session & s) { return s.snapshot().status(); }), 5);
        EXPECT_GT(fail_everywhere(*session, [&](Session & s) { return s.restore(*full); }), 5);
        EXPECT_EQ(session->lane_positions(0, 0).size(), tokens.size());
    }
    // What the ledger has counted meanwhile has been done; the state is the first one's.
    auto fresh = model->session(options);
    ASSERT_TRUE(fresh.ok());
    ASSERT_TRUE(fresh->prefill(tokens).ok());
    ASSERT_TRUE(fresh->append(7).ok());
    ASSERT_TRUE(session->append(7).ok());
    EXPECT_TRUE(std::ranges::equal(fresh->logits(), session->logits()));
}

TEST(Transactions, APromptForQuestionsFailsWithoutATrace) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(56, model->info().n_vocab);
    const auto questions = random_tokens(6, model->info().n_vocab, 2);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SessionOptions options;
        options.policy = "snapkv:window=8";
        options.budget = kBudget;
        options.prefill = schedule;
        options.chunk = kChunk;
        options.n_threads = 1;
        const Call read = [&](Session & s) { return s.prefill_for_questions(tokens, questions).status(); };
        auto session = model->session(options);
        auto twin = model->session(options);
        ASSERT_TRUE(session.ok() && twin.ok());
        EXPECT_GT(fail_everywhere(*session, read), 50);
        ASSERT_TRUE(read(*twin).ok());
        for (Session * each : {&*session, &*twin}) { ASSERT_TRUE(each->append(7).ok()); }
        EXPECT_TRUE(std::ranges::equal(session->logits(), twin->logits()));
    }
}

// What a session was asked once more, in the sight of its questions.
TEST(Transactions, ASecondStageFailsWithoutATrace) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(90, model->info().n_vocab);
    const auto questions = random_tokens(6, model->info().n_vocab, 2);
    for (const char * policy : {"keydiff", "h2o:recent=8"}) {
        SCOPED_TRACE(policy);
        SessionOptions options;
        options.policy = policy;
        options.budget = kBudget;
        options.prefill = PrefillSchedule::kChunked;
        options.chunk = kChunk;
        options.evict_every = kEvery;
        options.n_threads = 1;
        const Call second = [&](Session & s) { return s.evict_for_questions(questions, "snapkv:window=8", kBudget / 2); };
        auto session = model->session(options);
        auto twin = model->session(options);
        ASSERT_TRUE(session.ok() && twin.ok());
        for (Session * each : {&*session, &*twin}) { ASSERT_TRUE(each->prefill(tokens).ok()); }
        EXPECT_GT(fail_everywhere(*session, second), 50);
        ASSERT_TRUE(second(*twin).ok());
        EXPECT_TRUE(testing::contents_of(*session) == testing::contents_of(*twin));
        for (Session * each : {&*session, &*twin}) {
            for (int i = 0; i < 2 * kEvery; ++i) { ASSERT_TRUE(each->append(7).ok()); }
        }
        EXPECT_TRUE(testing::contents_of(*session) == testing::contents_of(*twin));
    }
}

// Every so many tokens entries leave the windows, which may need memory when evidence has been told of the token already.
TEST(Transactions, ATokenBehindWhichEntriesLeaveAWindowFailsWithoutATrace) {
    RandomModelSpec spec = testing::tiny_spec();
    spec.arch = "gemma2";
    spec.n_layers = 2;
    spec.window = 5;
    const auto model = testing::tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(140, model->info().n_vocab);
    SessionOptions options;
    options.policy = "full";
    options.observe = {"expected:future=8", "snapkv:window=8", "h2o:recent=8"};
    options.n_threads = 1;
    auto session = model->session(options);
    auto twin = model->session(options);
    ASSERT_TRUE(session.ok() && twin.ok());
    const size_t n_first = 128;
    for (Session * each : {&*session, &*twin}) { ASSERT_TRUE(each->prefill(std::span(tokens).first(n_first)).ok()); }
    const auto n_in_window = [&] {
        const int layer = session->is_governed(0) ? 1 : 0;
        return session->lane_positions(layer, 0).size();
    };
    bool left = false;
    for (size_t i = n_first; i < tokens.size() && !HasFailure(); ++i) {
        const size_t n_before = n_in_window();
        fail_everywhere(*session, [&](Session & s) { return s.append(tokens[i]); });
        left = left || n_in_window() < n_before;
        ASSERT_TRUE(twin->append(tokens[i]).ok());
        EXPECT_TRUE(testing::contents_of(*session) == testing::contents_of(*twin)) << "token " << i;
    }
    EXPECT_TRUE(left);
}

TEST_P(Transaction, ASecondPromptThatIsCancelledLeavesTheSessionAsItWas) {
    const auto model = make_model();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(200, model->info().n_vocab);
    Session session = open(*model);
    Session twin = open(*model);
    for (Session * each : {&session, &twin}) { ASSERT_TRUE(each->prefill(std::span(tokens).first(80)).ok()); }
    const SessionState before = state_of(session);
    for (int64_t n_seen = 1; n_seen < 100; n_seen += kEvery) {
        std::atomic<bool> cancel = false;
        RunHooks hooks;
        hooks.cancel = &cancel;
        hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done >= n_seen; };
        ASSERT_EQ(session.prefill(std::span(tokens).last(120), hooks).code(), ErrorCode::kCancelled);
        EXPECT_TRUE(state_of(session) == before) << "cancelled after " << n_seen;
    }
    for (Session * each : {&session, &twin}) { ASSERT_TRUE(each->prefill(std::span(tokens).last(120)).ok()); }
    EXPECT_TRUE(std::ranges::equal(session.logits(), twin.logits()));
}

TEST_P(Transaction, AHookThatThrowsEndsTheCallAndChangesNothing) {
    const auto model = make_model();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(200, model->info().n_vocab);
    Session session = open(*model);
    ASSERT_TRUE(session.prefill(std::span(tokens).first(80)).ok());
    const SessionState before = state_of(session);
    RunHooks hooks;
    hooks.progress = [](int64_t, int64_t) { throw std::runtime_error("no more"); };
    for (const size_t n : {1, 30}) {
        const Status status = session.prefill(std::span(tokens).last(n), hooks);
        EXPECT_EQ(status.code(), ErrorCode::kInternal);
        EXPECT_EQ(status.message(), "no more");
        EXPECT_TRUE(state_of(session) == before) << n;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, Transaction,
    ::testing::Values(Case{"snapkv:window=8"}, Case{"h2o:recent=8"}, Case{"expected:future=8+ada", PrefillSchedule::kChunked},
                      Case{"knorm", PrefillSchedule::kChunked}, Case{"laprox:window=8"}, Case{"snapkv:window=8+novelty"},
                      Case{"h2o:recent=8", PrefillSchedule::kChunked}, Case{"compactor", PrefillSchedule::kChunked},
                      Case{"gated+snapkv:window=8", PrefillSchedule::kChunked, true},
                      // What is dropped in the middle of a prompt goes to a file.
                      Case{"snapkv:window=8+caote", PrefillSchedule::kChunked, false, Budget(BudgetKind::kBytes, 56 * 1024)}));

// An adapter that blows the activations up: no token may be chosen by what comes out.
TEST(Transactions, LogitsThatAreNoNumbersAreAnErrorAndLeaveTheSessionAsItWas) {
    const std::string path = testing::scratch_file("blown.gguf");
    const std::string lora = testing::scratch_file("blown.lora.gguf");
    ASSERT_TRUE(write_random_model(testing::tiny_spec(), path).ok());
    const auto plain = Model::load(path);
    ASSERT_TRUE(plain.ok());
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), lora).ok());
    ModelOptions options;
    options.lora_file = lora;
    options.lora_scale = 1e38F;
    const auto model = Model::load(path, options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    auto session = model->session({});
    ASSERT_TRUE(session.ok());
    const Status status = session->prefill(random_tokens(20, model->info().n_vocab));
    EXPECT_EQ(status.code(), ErrorCode::kInternal);
    EXPECT_NE(status.message().find("not a number"), std::string::npos) << status.message();
    EXPECT_EQ(session->n_tokens(), 0);
    EXPECT_TRUE(session->logits().empty());
}

TEST(Transactions, ASnapshotOfASessionThatIsGoneIsNobodysElse) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok());
    const auto tokens = random_tokens(20, model->info().n_vocab);
    std::shared_ptr<Session::Snapshot> orphan;
    for (int i = 0; i < 8; ++i) {  // sooner or later one lies where the other lay
        auto session = model->session({});
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(tokens).ok());
        if (orphan) { EXPECT_EQ(session->restore(orphan).code(), ErrorCode::kInvalidArgument); }
        auto snapshot = session->snapshot();
        ASSERT_TRUE(snapshot.ok());
        if (!orphan) { orphan = *snapshot; }
    }
}

}  // namespace
}  // namespace pith::transaction_test
