// question_prefill_test.cpp - a prompt read for questions that come later: judged by them, and then as if they had not been
// there.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/pass/live_session.h"
#include "engine/policy_probe.h"
#include "engine/tiny_session.h"
#include "pith/session.h"
#include "policy/policy.h"

namespace pith::question_prefill_test {
namespace {

using testing::Lanes;
using testing::lanes_below;
using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kChunk = 48;
constexpr int kContext = 3 * kChunk + 20;
constexpr int kQuestions = 21;  // tokens of all of them
constexpr int kBudget = 24;

class QuestionPrefill : public ::testing::TestWithParam<const char *> {
protected:
    static SessionOptions options_of(const std::string & policy, int budget, PrefillSchedule schedule) {
        return tiny_options(policy, budget, schedule, kChunk);
    }
    static Status read(Session & session, std::span<const int32_t> context, std::span<const int32_t> questions,
                       const RunHooks & hooks = {}, bool expect_seen = true) {
        const Result<bool> seen = session.prefill_for_questions(context, questions, hooks);
        if (seen.ok()) { EXPECT_EQ(*seen, expect_seen); }
        return seen.status();
    }
    // Nothing is left of a read that failed, and the next one does what a new session does.
    void expect_as_new(Session & session, const SessionOptions & options) {
        EXPECT_EQ(session.n_tokens(), 0);
        EXPECT_EQ(session.ledger().kept_entries, 0);
        Session fresh = open_tiny(options);
        ASSERT_TRUE(read(session, context_, questions_).ok());
        ASSERT_TRUE(read(fresh, context_, questions_).ok());
        EXPECT_EQ(lanes_below(session, kContext), lanes_below(fresh, kContext));
        EXPECT_TRUE(std::ranges::equal(session.logits(), fresh.logits()));
    }
    static int64_t n_lanes(const Session & session) { return int64_t{session.n_layers()} * session.n_kv_heads(); }

    const std::vector<int32_t> context_ = random_tokens(kContext, tiny_spec().n_vocab, 3);
    const std::vector<int32_t> questions_ = random_tokens(kQuestions, tiny_spec().n_vocab, 4);
};

// The policy whose window is all the questions' tokens, over context and questions in one prompt of which these are pinned and
// on top of the budget: what that keeps of the context.
TEST_P(QuestionPrefill, KeepsWhatAPromptThatEndsInAllOfThemKeepsOfTheContext) {
    std::vector<int32_t> whole = context_;
    whole.insert(whole.end(), questions_.begin(), questions_.end());
    SessionOptions options = options_of(GetParam(), kBudget + kQuestions, PrefillSchedule::kOneShot);
    options.pinned = {{kContext, kContext + kQuestions}};
    Session together = open_tiny(options);
    ASSERT_TRUE(together.prefill(whole).ok());

    Session session = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    const Status status = read(session, context_, questions_);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(lanes_below(session, kContext + kQuestions), lanes_below(together, kContext));
    EXPECT_EQ(session.n_tokens(), kContext);
    EXPECT_EQ(session.ledger().kept_entries, kBudget * n_lanes(session));
    EXPECT_EQ(session.ledger().n_prompt, kContext);
}

TEST_P(QuestionPrefill, InChunksJudgesEveryChunkAsOneShotDoes) {
    if (std::string(GetParam()).find("novelty") != std::string::npos) {
        GTEST_SKIP() << "in one shot a layer's share depends on what its neighbours have kept already";
    }
    Session whole = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    ASSERT_TRUE(read(whole, std::span(context_).first(kChunk), questions_).ok());
    Session session = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kChunked));
    Lanes after_first;
    RunHooks hooks;
    hooks.progress = [&](int64_t n_done, int64_t) {
        if (n_done == kChunk) { after_first = lanes_below(session, kContext + kQuestions); }
    };
    const Status status = read(session, context_, questions_, hooks);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(after_first, lanes_below(whole, kContext));
    EXPECT_EQ(session.n_tokens(), kContext);
    EXPECT_EQ(session.ledger().kept_entries, kBudget * n_lanes(session));
    EXPECT_EQ(session.ledger().schedule, "in chunks, question seen");
}

// Where nothing is evicted the questions never run.
TEST_P(QuestionPrefill, IsAPlainPrefillWhereAllFits) {
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        Session plain = open_tiny(options_of(GetParam(), kContext, schedule));
        Session session = open_tiny(options_of(GetParam(), kContext, schedule));
        ASSERT_TRUE(plain.prefill(context_).ok());
        ASSERT_TRUE(read(session, context_, questions_, {}, /*expect_seen=*/false).ok()) << "nothing to evict";
        EXPECT_TRUE(std::ranges::equal(session.logits(), plain.logits()));
        EXPECT_EQ(lanes_below(session, kContext), lanes_below(plain, kContext));
    }
    Session full = open_tiny(options_of("full", 0, PrefillSchedule::kOneShot));
    ASSERT_TRUE(read(full, context_, questions_, {}, /*expect_seen=*/false).ok()) << "nothing can be evicted";
}

// Of the evidence that goes on, nothing is of a question: no query, no moment, and no more of it than the policy asks for.
TEST_P(QuestionPrefill, LeavesNoQueriesOfTheQuestionsBehind) {
    const EvidenceNeeds wanted = Policy::parse(GetParam())->needs();
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        Session session = open_tiny(options_of(GetParam(), kBudget, schedule));
        Session plain = open_tiny(options_of(GetParam(), kBudget, schedule));
        ASSERT_TRUE(read(session, context_, questions_).ok());
        ASSERT_TRUE(plain.prefill(context_).ok());
        const EvidenceState & evidence = live_session(session).seq.evidence;
        const EvidenceState & of_plain = live_session(plain).seq.evidence;
        EXPECT_EQ(evidence.n_kept_queries(), of_plain.n_kept_queries());
        EXPECT_EQ(evidence.needs(), wanted);
        for (int l = 0; l < session.n_layers(); ++l) {
            for (const int32_t position : evidence.layer(l).queries.positions()) { EXPECT_LT(position, kContext); }
            for (const QuerySampler & sampler : evidence.layer(l).samplers) { EXPECT_LE(sampler.next(), kContext); }
            EXPECT_EQ(evidence.layer(l).moments.n, of_plain.layer(l).moments.n);
        }
    }
}

// A layer fails while the questions are in the lanes of some layers.
TEST_P(QuestionPrefill, AFailureWhileTheQuestionsRunLeavesTheSessionAsItWas) {
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        const SessionOptions options = options_of(GetParam(), kBudget, schedule);
        Session session = open_tiny(options);
        LiveSession & live = live_session(session);
        int n_runs = 0;
        live.forward->set_query_observer([&](int layer, std::span<const float>, int n, int32_t) -> Status {
            n_runs += n == kQuestions && layer == 1 ? 1 : 0;
            const int fails = schedule == PrefillSchedule::kChunked ? 2 : 1;
            if (n == kQuestions && layer == 1 && n_runs == fails) { return {ErrorCode::kOutOfMemory, "injected"}; }
            return {};
        });
        EXPECT_EQ(read(session, context_, questions_).message(), "injected");
        live.forward->set_query_observer({});
        EXPECT_TRUE(live.observers.empty());
        expect_as_new(session, options);
    }
}

// Nothing that the questions did stays: logits and evidence are those of the context.
TEST_P(QuestionPrefill, LeavesNothingOfTheQuestionsBehind) {
    SessionOptions keeps_all = options_of("full", 0, PrefillSchedule::kOneShot);
    keeps_all.observe = {GetParam()};
    Session full = open_tiny(keeps_all);
    Session session = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    ASSERT_TRUE(full.prefill(context_).ok());
    ASSERT_TRUE(read(session, context_, questions_).ok());
    EXPECT_TRUE(std::ranges::equal(session.logits(), full.logits())) << "evicted behind the layer that reads them";
    const EvidenceNeeds wanted = Policy::parse(GetParam())->needs();
    const auto expect_carried = [&](const Ragged<float> & all, const Ragged<float> & kept, int h, int lane) {
        const auto positions = session.lane_positions(0, lane);
        ASSERT_EQ(kept.row(h).size(), positions.size());
        for (size_t j = 0; j < positions.size(); ++j) {
            EXPECT_FLOAT_EQ(kept.row(h)[j], all.row(h)[static_cast<size_t>(positions[j])]) << h << " " << positions[j];
        }
    };
    if (wanted.running_sum || wanted.key_norm) {
        const auto of_all = PolicyProbe(full).evidence(0, wanted);
        const auto of_kept = PolicyProbe(session).evidence(0, wanted);
        ASSERT_TRUE(of_all.ok() && of_kept.ok());
        for (int h = 0; h < of_all->running_sum.n_rows(); ++h) {
            expect_carried(of_all->running_sum, of_kept->running_sum, h, h / of_all->n_group);
        }
        for (int h = 0; h < of_all->key_norm.n_rows(); ++h) { expect_carried(of_all->key_norm, of_kept->key_norm, h, h); }
    }
}

// Each question from the same state, evictions in its answer included.
TEST_P(QuestionPrefill, AnswersEachQuestionFromTheSameState) {
    SessionOptions options = options_of(GetParam(), kBudget, PrefillSchedule::kOneShot);
    options.evict_every = 4;
    const auto answer = [&](Session & session, size_t begin, size_t end) {
        EXPECT_TRUE(session.prefill(std::span(questions_).subspan(begin, end - begin)).ok());
        std::vector<int32_t> tokens;
        for (int i = 0; i < 10; ++i) { tokens.push_back(*session.decode()); }
        return tokens;
    };
    Session session = open_tiny(options);
    ASSERT_TRUE(read(session, context_, questions_).ok());
    const auto compressed = session.snapshot();
    ASSERT_TRUE(compressed.ok());
    const auto first = answer(session, 0, 9);
    ASSERT_TRUE(session.restore(*compressed).ok());
    const auto second = answer(session, 9, kQuestions);

    Session fresh = open_tiny(options);
    ASSERT_TRUE(read(fresh, context_, questions_).ok());
    EXPECT_EQ(answer(fresh, 9, kQuestions), second);
    ASSERT_TRUE(session.restore(*compressed).ok());
    EXPECT_EQ(answer(session, 0, 9), first);
}

TEST_P(QuestionPrefill, CancelledHalfWayLeavesTheSessionAsItWas) {
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        const SessionOptions options = options_of(GetParam(), kBudget, schedule);
        Session session = open_tiny(options);
        std::atomic<bool> cancel = false;
        RunHooks hooks;
        hooks.cancel = &cancel;
        hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done >= 2 * kChunk; };
        EXPECT_EQ(read(session, context_, questions_, hooks).code(), ErrorCode::kCancelled);
        expect_as_new(session, options);
    }
}

TEST_P(QuestionPrefill, IsForTheFirstPrompt) {
    Session session = open_tiny(options_of(GetParam(), kBudget, PrefillSchedule::kOneShot));
    EXPECT_EQ(read(session, context_, {}).code(), ErrorCode::kInvalidArgument);
    ASSERT_TRUE(read(session, context_, questions_).ok());
    EXPECT_EQ(read(session, context_, questions_).code(), ErrorCode::kInvalidArgument);
}

// Windows are given as long as the questions, so that a plain prompt has the same queries in its window.
INSTANTIATE_TEST_SUITE_P(Policies, QuestionPrefill,
                         ::testing::Values("snapkv:window=21", "snapkv:window=21+ada", "h2o:recent=4", "expected:recent=4",
                                           "knorm:recent=4", "compactor:sinks=4", "laprox:window=21",
                                           "snapkv:window=21+critical", "snapkv:window=21+caote",
                                           "snapkv:window=21+novelty+diverse"),
                         [](const auto & of) {
                             std::string name;
                             for (const char c : std::string(of.param)) { name += std::isalnum(c) != 0 ? c : '_'; }
                             return name;
                         });

// A short window is widened to all the questions, and so is a look at the last query alone.
TEST(QuestionPrefillWindow, IsAllOfTheQuestions) {
    const auto kept = [](const std::string & policy) {
        Session session = open_tiny(tiny_options(policy, kBudget, PrefillSchedule::kOneShot, SessionOptions().chunk));
        const auto seen = session.prefill_for_questions(random_tokens(kContext, tiny_spec().n_vocab, 3),
                                                        random_tokens(kQuestions, tiny_spec().n_vocab, 4));
        EXPECT_TRUE(seen.ok() && *seen) << seen.status().message();
        return lanes_below(session, kContext + kQuestions);
    };
    EXPECT_EQ(kept("snapkv:window=4:pool=none"), kept("snapkv:window=21:pool=none"));
    EXPECT_EQ(kept("tova:recent=4"), kept("snapkv:window=4:pool=none"));
}

// A question that is longer than what arrives between two evictions stays inside the bytes, too.
TEST(QuestionPrefillBytes, HoldTheQuestionThatIsAskedAfterwards) {
    constexpr int kLong = 300;
    SessionOptions options = tiny_options("snapkv:window=8", 0, PrefillSchedule::kOneShot, SessionOptions().chunk);
    options.budget = Budget(BudgetKind::kBytes, 1 << 20);
    Session session = open_tiny(options);
    const auto question = random_tokens(kLong, tiny_spec().n_vocab, 4);
    const auto seen = session.prefill_for_questions(random_tokens(1200, tiny_spec().n_vocab, 3), question);
    ASSERT_TRUE(seen.ok()) << seen.status().message();
    EXPECT_TRUE(*seen);
    EXPECT_GT(session.ledger().evicted_entries, 0);
    ASSERT_TRUE(session.prefill(question).ok());
    EXPECT_LE(session.ledger().kv_peak_bytes, size_t{1} << 20);
}

}  // namespace
}  // namespace pith::question_prefill_test
