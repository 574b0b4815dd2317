// repair_failure_test.cpp - whatever fails, or cancels, an eviction that keeps what it takes out, a repair or a prompt that
// looks back: the session, and what it keeps outside memory, is as it was.
#include <gtest/gtest.h>

#include <tuple>

#include "engine/fail_everywhere.h"
#include "engine/tiny_model.h"

namespace pith::repair_failure_test {
namespace {

using testing::fail_everywhere;
using testing::random_tokens;

class RepairFailure : public ::testing::TestWithParam<std::tuple<const char *, bool>> {
protected:
    static Session open(const Model & model) {
        SessionOptions options;
        options.policy = std::get<0>(GetParam());
        options.budget = 40;
        options.prefill = PrefillSchedule::kChunked;
        options.chunk = 16;
        options.evict_every = 8;
        options.n_threads = 1;
        options.cold = KvType::kQ8_0;
        options.look_back = std::get<1>(GetParam());
        options.repair_every = 2;
        auto session = model.session(options);
        EXPECT_TRUE(session.ok()) << session.status().message();
        return std::move(*session);
    }
};

TEST_P(RepairFailure, WhateverFailsLanesAndWhatIsColdAreAsTheyWere) {
    RandomModelSpec spec = testing::tiny_spec();
    spec.n_layers = 2;
    const auto model = testing::tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(130, model->info().n_vocab);
    const auto question = std::span(tokens).subspan(90, 10);
    Session session = open(*model);
    const auto prefill = [&](int begin, int n) {
        return testing::FailingCall([&, begin, n](Session & one) {
            return one.prefill(std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(n)));
        });
    };
    EXPECT_GT(fail_everywhere(session, prefill(0, 64)), 0);
    EXPECT_GT(fail_everywhere(session, prefill(64, 26)), 0);
    EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.repair(question); }), 0);
    EXPECT_GT(session.ledger().returned_entries, 0);
    EXPECT_GT(testing::cancel_everywhere(
                  session, [&](Session & one, const std::atomic<bool> * cancel) { return one.repair(question, true, cancel); }),
              0);
    RunHooks looks;
    looks.repair = std::get<1>(GetParam());
    const auto read = std::span(tokens).subspan(90, 30);  // more than a chunk: some of it is evicted on the way
    EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.prefill(read, looks); }), 0);
    for (const int32_t token : question.first(5)) {
        EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.append(token); }), 0);
    }
    EXPECT_GT(session.ledger().n_answer_repairs, 0);
    EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.prefill(question.first(1), looks); }), 0);
    EXPECT_GT(testing::cancel_everywhere(session,
                                         [&](Session & one, const std::atomic<bool> * cancel) {
                                             RunHooks hooks = looks;
                                             hooks.cancel = cancel;
                                             return one.prefill(question, hooks);
                                         }),
              0);
    looks.repair = false;
    EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.prefill(question, looks); }), 0);
}

// Where nothing was evicted yet nothing can come back, and nothing may stay of having looked.
TEST_P(RepairFailure, OneTokenThatFindsNothingToLookForLeavesNothing) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(60, model->info().n_vocab);
    Session session = open(*model);
    ASSERT_TRUE(session.set_draft_ngram(4).ok());
    RunHooks looks;
    looks.repair = std::get<1>(GetParam());
    EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.prefill(std::span(tokens).first(20)); }), 0);
    for (int i = 20; i < 24; ++i) {
        EXPECT_GT(fail_everywhere(session, [&](Session & one) { return one.prefill(std::span(&tokens[20], 1), looks); }), 0);
    }
    EXPECT_EQ(session.ledger().cold_entries, 0);
    const std::string path = testing::scratch_file("looked.pith").string();
    ASSERT_TRUE(session.save(path).ok());
    const auto opened = model->open_session(path, 1);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
}

INSTANTIATE_TEST_SUITE_P(Policies, RepairFailure,
                         ::testing::Combine(::testing::Values("h2o", "snapkv:window=4"), ::testing::Bool()));

}  // namespace
}  // namespace pith::repair_failure_test
