// cancel_test.cpp - whichever graph run a call is cancelled in, no other begins, and the session is as it was: prompts in one
// shot and in chunks, gates, observers, gathering, planning and eviction.
#include <gtest/gtest.h>

#include <functional>

#include "engine/fail_at.h"
#include "engine/gated_model.h"
#include "engine/policy_probe.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"

namespace pith {
namespace {

using testing::Fails;
using testing::random_tokens;
using testing::SessionState;
using testing::state_of;

using Call = std::function<Status(Session &, const std::atomic<bool> *)>;

// The call, cancelled in its first graph run, in its second, and so on until it has no more of them. Returns how many it had.
int64_t cancel_everywhere(Session & session, const Call & call) {
    for (int64_t k = 1;; ++k) {
        const auto snapshot = session.snapshot();  // so that a success can be taken back
        EXPECT_TRUE(snapshot.ok());
        const SessionState before = state_of(session);
        testing::fail_at(Fails::kCancel, k);
        const Status status = call(session, &testing::cancel_flag());
        EXPECT_EQ(testing::n_graphs_after_cancel(), 0) << "it went on after the " << k << "th";
        const bool was_cancelled = testing::stop_failing();
        if (status.ok()) {  // nobody asked, or nothing was left to do but to drop what is evicted
            EXPECT_TRUE(session.restore(*snapshot).ok());
            if (!was_cancelled) { return k - 1; }
            continue;
        }
        EXPECT_TRUE(was_cancelled) << status.message();
        EXPECT_EQ(status.code(), ErrorCode::kCancelled) << status.message();
        EXPECT_TRUE(state_of(session) == before) << "the " << k << "th";
        if (::testing::Test::HasFailure()) { return k; }
    }
}

constexpr int kChunk = 16;
constexpr int kBudget = 40;
constexpr int kLayers = 2;

struct Case {
    const char * policy;
    PrefillSchedule prefill = PrefillSchedule::kOneShot;
    bool gated = false;
};
std::ostream & operator<<(std::ostream & out, const Case & c) {
    return out << c.policy << (c.prefill == PrefillSchedule::kOneShot ? " one-shot" : " in chunks");
}

class Cancel : public ::testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = kLayers;
        GateConfig gate = testing::even_gate();
        gate.causal = GetParam().prefill == PrefillSchedule::kChunked;
        auto model = GetParam().gated ? testing::gated_model(spec, gate) : testing::tiny_model(spec);
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_.emplace(std::move(*model));
        tokens_ = random_tokens(160, model_->info().n_vocab);
        options_.policy = GetParam().policy;
        options_.budget = kBudget;
        options_.prefill = GetParam().prefill;
        options_.chunk = kChunk;
        options_.evict_every = 8;
        options_.n_threads = 1;
    }
    Session open() const {
        auto session = model_->session(options_);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }

    std::optional<Model> model_;
    std::vector<int32_t> tokens_;
    SessionOptions options_;
};

TEST_P(Cancel, APromptEndsWithTheRunItIsAskedInAndLeavesTheSessionAsItWas) {
    const auto feed = [&](int begin, int n, int n_question) {
        return Call([&, begin, n, n_question](Session & session, const std::atomic<bool> * cancel) {
            RunHooks hooks;
            hooks.cancel = cancel;
            hooks.n_question = n_question;
            return session.prefill(std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)), hooks);
        });
    };
    Session session = open();
    Session twin = open();
    const Call first = feed(0, 80, 6);
    const Call second = feed(80, 40, 0);
    for (const Call & call : {first, second}) {
        EXPECT_GE(cancel_everywhere(session, call), (kLayers + 1) * 2);
        for (Session * each : {&session, &twin}) { ASSERT_TRUE(call(*each, nullptr).ok()); }
        EXPECT_TRUE(std::ranges::equal(session.logits(), twin.logits()));
    }
}

TEST_P(Cancel, APromptForQuestionsDoesToo) {
    const auto questions = random_tokens(6, model_->info().n_vocab, 2);
    Session session = open();
    const Call read = [&](Session & each, const std::atomic<bool> * cancel) {
        RunHooks hooks;
        hooks.cancel = cancel;
        return each.prefill_for_questions(std::span(tokens_).first(56), questions, hooks).status();
    };
    EXPECT_GE(cancel_everywhere(session, read), kLayers + 1);
    EXPECT_TRUE(read(session, nullptr).ok());
}

TEST_P(Cancel, AnEvictionEndsBeforeItDropsAnything) {
    if (GetParam().gated) { GTEST_SKIP() << "gates decide while the prompt is read"; }
    options_.observe = {options_.policy};
    options_.policy = "full";
    options_.budget = Budget();
    Session session = open();
    ASSERT_TRUE(session.prefill(std::span(tokens_).first(80)).ok());
    const int64_t n = cancel_everywhere(session, [&](Session & each, const std::atomic<bool> * cancel) {
        return each.evict(GetParam().policy, kBudget, cancel);
    });
    EXPECT_GE(n, 1);
    // What only looks is cancelled as well.
    EXPECT_GE(cancel_everywhere(session,
                                [&](Session & each, const std::atomic<bool> * cancel) {
                                    return PolicyProbe(each, cancel).view(GetParam().policy, kBudget).status();
                                }),
              0);
    ASSERT_TRUE(session.evict(GetParam().policy, kBudget).ok());
    EXPECT_EQ(session.ledger().kept_entries, kBudget * session.ledger().n_lanes);
}

INSTANTIATE_TEST_SUITE_P(Policies, Cancel,
                         ::testing::Values(Case{"snapkv:window=8"}, Case{"snapkv:window=8", PrefillSchedule::kChunked},
                                           Case{"h2o:recent=8", PrefillSchedule::kChunked},
                                           Case{"expected:future=8+ada", PrefillSchedule::kChunked}, Case{"laprox:window=8"},
                                           Case{"snapkv:window=8+caote+joint"}, Case{"snapkv:window=8+novelty+diverse"},
                                           Case{"gated+snapkv:window=8", PrefillSchedule::kOneShot, true},
                                           Case{"gated+snapkv:window=8", PrefillSchedule::kChunked, true}));

}  // namespace
}  // namespace pith
