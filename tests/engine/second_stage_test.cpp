// second_stage_test.cpp - a context that was compressed before its questions were known, compressed once more in their sight.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "engine/gated_model.h"
#include "engine/rest/saved_and_opened.h"
#include "engine/session_state.h"
#include "engine/tiny_session.h"

namespace pith::second_stage_test {
namespace {

using testing::contents_of;
using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kStaged = 200;
constexpr int kBase = 96;  // entries that the first stage leaves
constexpr int kAsked = 40;

class SecondStage : public ::testing::Test {
protected:
    static SessionOptions options_of(const std::string & policy, int budget, std::vector<PolicyChoice> observe = {}) {
        SessionOptions options = tiny_options(policy, budget, PrefillSchedule::kChunked, 256);
        options.observe = std::move(observe);
        options.evict_every = 16;
        return options;
    }
    static Session base(const std::string & policy = "keydiff", int budget = kBase, std::vector<PolicyChoice> observe = {}) {
        Session session = open_tiny(options_of(policy, budget, std::move(observe)));
        EXPECT_TRUE(session.prefill(random_tokens(kStaged, tiny_spec().n_vocab, 3)).ok());
        return session;
    }
    static std::vector<int32_t> question(unsigned seed = 4, int n = 12) { return random_tokens(n, tiny_spec().n_vocab, seed); }
};

// One chunk, read without a question and evicted in its sight, is that chunk read for the question.
TEST_F(SecondStage, OfAWholeContextLeavesWhatReadingItForTheQuestionLeaves) {
    for (const char * policy : {"snapkv:window=8", "tova", "keydiff", "laprox", "snapkv:window=8+preference", "h2o:recent=6"}) {
        SCOPED_TRACE(policy);
        Session whole = base("full", 0, {policy});
        ASSERT_TRUE(whole.evict_for_questions(question(), policy, kAsked).ok());
        Session read_for = open_tiny(options_of(policy, kAsked, {policy}));
        const auto context = random_tokens(kStaged, tiny_spec().n_vocab, 3);
        ASSERT_TRUE(read_for.prefill_for_questions(context, question()).ok());
        EXPECT_TRUE(testing::lanes_of(whole) == testing::lanes_of(read_for));
        for (Session * each : {&whole, &read_for}) {
            ASSERT_TRUE(each->prefill(question()).ok());
            for (int i = 0; i < 40; ++i) { ASSERT_TRUE(each->append(i).ok()); }
        }
        EXPECT_TRUE(testing::lanes_of(whole) == testing::lanes_of(read_for));
    }
}

TEST_F(SecondStage, IsOfACopyTheBaseStaysForTheNextQuestion) {
    Session session = base();
    EXPECT_EQ(session.ledger().kept_entries, kBase * session.ledger().n_lanes);
    const auto before = contents_of(session);
    const auto compressed = session.snapshot();
    ASSERT_TRUE(compressed.ok());
    std::vector<testing::Lanes> kept;
    for (const unsigned seed : {4U, 5U}) {
        ASSERT_TRUE(session.evict_for_questions(question(seed), "auto", kAsked).ok());
        EXPECT_EQ(session.ledger().kept_entries, kAsked * session.ledger().n_lanes);
        EXPECT_EQ(session.n_tokens(), kStaged);
        kept.push_back(testing::lanes_below(session, kStaged));
        ASSERT_TRUE(session.prefill(question(seed)).ok());
        for (int i = 0; i < 40; ++i) { ASSERT_TRUE(session.append(i).ok()); }
        EXPECT_LE(session.ledger().kept_entries, (kAsked + 16) * session.ledger().n_lanes);
        ASSERT_TRUE(session.restore(*compressed).ok());
        EXPECT_TRUE(contents_of(session) == before);
    }
    EXPECT_NE(kept[0], kept[1]);  // each question leaves its own
}

TEST_F(SecondStage, WithRoomForAllEvictsNothing) {
    Session session = base();
    const auto lanes = testing::lanes_of(session);
    ASSERT_TRUE(session.evict_for_questions(question(), "snapkv:window=8", kBase).ok());
    EXPECT_TRUE(testing::lanes_of(session) == lanes);
    EXPECT_EQ(session.ledger().policy, "snapkv:window=8");
}

// A second reading asks no question, so none stands in the lanes, and the budget is what was said.
TEST_F(SecondStage, ByASecondReadingKeepsToTheBudget) {
    for (const int budget : {0, kAsked + 6}) {  // the whole context; less than the question is long above what is asked for
        Session session = base(budget == 0 ? "full" : "keydiff", budget, {"kvzip"});
        ASSERT_TRUE(session.evict_for_questions(question(), "kvzip", kAsked).ok());
        EXPECT_EQ(session.ledger().kept_entries, kAsked * session.ledger().n_lanes);
    }
}

TEST_F(SecondStage, LongerThanAChunkIsSeenWhole) {
    Session session = base();
    ASSERT_TRUE(session.evict_for_questions(question(4, 600), "snapkv", kAsked).ok());
    EXPECT_EQ(session.ledger().kept_entries, kAsked * session.ledger().n_lanes);
}

// Also by policies that sampled, or summed, what the next one does not ask for.
TEST_F(SecondStage, IsSavedAndOpenedAsItIs) {
    const Model model = testing::tiny_model(tiny_spec()).value();
    for (const char * policy : {"keydiff", "h2o:recent=6", "snapkv:window=8+novelty"}) {
        SCOPED_TRACE(policy);
        auto session = model.session(options_of(policy, kBase));
        ASSERT_TRUE(session.ok());
        ASSERT_TRUE(session->prefill(random_tokens(kStaged, tiny_spec().n_vocab, 3)).ok());
        ASSERT_TRUE(session->evict_for_questions(question(), "snapkv:window=8", kAsked).ok());
        ASSERT_TRUE(session->prefill(question()).ok());
        testing::expect_saving_changes_nothing(model, *session, true);
    }
}

TEST_F(SecondStage, ThatCannotBeLeavesTheSessionAsItWas) {
    Session session = base();
    const auto before = contents_of(session);
    const auto expect_refused = [&](const Status & status, ErrorCode code, const char * words) {
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
        EXPECT_TRUE(contents_of(session) == before);
    };
    expect_refused(session.evict_for_questions({}, "snapkv", kAsked), ErrorCode::kInvalidArgument, "no questions");
    expect_refused(session.evict_for_questions(question(), "h2o", kAsked), ErrorCode::kMissingEvidence, "h2o");
    expect_refused(session.evict_for_questions(question(), "snapkv+novelty", kAsked), ErrorCode::kMissingEvidence, "novelty");
    expect_refused(session.evict_for_questions(question(), "snapkv:window=30", 20), ErrorCode::kBudget, "20");
    expect_refused(session.evict_for_questions(question(), "gated", kAsked), ErrorCode::kInvalidArgument, "gated");
    expect_refused(session.evict_for_questions(question(), "headkv", kAsked), ErrorCode::kInvalidArgument, "importances");
    std::vector<int32_t> unknown = question();
    unknown.back() = tiny_spec().n_vocab;
    expect_refused(session.evict_for_questions(unknown, "snapkv", kAsked), ErrorCode::kInvalidArgument, "vocabulary");
    const std::atomic<bool> cancel{true};
    expect_refused(session.evict_for_questions(question(), "snapkv", kAsked, &cancel), ErrorCode::kCancelled, "");
    Session empty = open_tiny(tiny_options("keydiff", kBase, PrefillSchedule::kChunked, 256));
    EXPECT_EQ(empty.evict_for_questions(question(), "snapkv", kAsked).code(), ErrorCode::kInvalidArgument);
}

TEST_F(SecondStage, OfASessionThatAsksItsGatesIsRefused) {
    const auto model = testing::gated_model(tiny_spec(), testing::even_gate());
    ASSERT_TRUE(model.ok());
    auto session = model->session(tiny_options("gated+snapkv", kBase, PrefillSchedule::kAuto, 256));
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(random_tokens(kStaged, tiny_spec().n_vocab, 3)).ok());
    const Status refused = session->evict_for_questions(question(), "snapkv", kAsked);
    EXPECT_EQ(refused.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("gates"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace pith::second_stage_test
