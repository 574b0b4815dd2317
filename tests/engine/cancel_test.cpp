// cancel_test.cpp - whichever graph run a call is cancelled in, no other begins, and the session is as it was: prompts in one
// shot and in chunks, gates, observers, gathering, planning and eviction.
#include <gtest/gtest.h>

#include "engine/fail_everywhere.h"
#include "engine/gated_model.h"
#include "engine/policy_probe.h"
#include "engine/session_state.h"
#include "engine/tiny_model.h"

namespace pith::cancel_test {
namespace {

using testing::cancel_everywhere;
using testing::random_tokens;

using Call = testing::CancelledCall;

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

TEST_P(Cancel, ASecondStageEndsWithTheRunItIsAskedIn) {
    if (GetParam().gated) { GTEST_SKIP() << "gates decide while the prompt is read"; }
    const auto questions = random_tokens(6, model_->info().n_vocab, 2);
    Session session = open();
    ASSERT_TRUE(session.prefill(std::span(tokens_).first(80)).ok());
    const Call second = [&](Session & each, const std::atomic<bool> * cancel) {
        return each.evict_for_questions(questions, "snapkv:window=8", kBudget / 2, cancel);
    };
    EXPECT_GE(cancel_everywhere(session, second), kLayers);
    ASSERT_TRUE(second(session, nullptr).ok());
    EXPECT_EQ(session.ledger().kept_entries, kBudget / 2 * session.ledger().n_lanes);
}

INSTANTIATE_TEST_SUITE_P(Policies, Cancel,
                         ::testing::Values(Case{"snapkv:window=8"}, Case{"snapkv:window=8", PrefillSchedule::kChunked},
                                           Case{"h2o:recent=8", PrefillSchedule::kChunked},
                                           Case{"expected:future=8+ada", PrefillSchedule::kChunked}, Case{"laprox:window=8"},
                                           Case{"snapkv:window=8+caote+joint"}, Case{"snapkv:window=8+novelty+diverse"},
                                           Case{"gated+snapkv:window=8", PrefillSchedule::kOneShot, true},
                                           Case{"gated+snapkv:window=8", PrefillSchedule::kChunked, true}));

}  // namespace
}  // namespace pith::cancel_test
