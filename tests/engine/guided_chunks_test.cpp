// guided_chunks_test.cpp - a prompt in chunks, each judged by the question at the prompt's end.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layer_probe.h"
#include "engine/tiny_session.h"
#include "pith/session.h"

namespace pith::guided_chunks_test {
namespace {

using testing::Lanes;
using testing::lanes_below;
using testing::open_tiny;
using testing::random_tokens;
using testing::tiny_options;
using testing::tiny_spec;

constexpr int kChunk = 48;
constexpr int kContext = 3 * kChunk + 20;
constexpr int kQuestion = 11;

class GuidedChunks : public ::testing::TestWithParam<const char *> {
protected:
    static SessionOptions options_of(const std::string & policy, int budget, PrefillSchedule schedule) {
        return tiny_options(policy, budget, schedule, kChunk);
    }
    const std::vector<int32_t> context_ = random_tokens(kContext, tiny_spec().n_vocab, 3);
    const std::vector<int32_t> question_ = random_tokens(kQuestion, tiny_spec().n_vocab, 4);
    // Nothing is left of a prefill that failed, and the next one does what a new session does.
    void expect_as_new(Session & session, const SessionOptions & options, const RunHooks & hooks) const {
        EXPECT_EQ(session.n_tokens(), 0);
        EXPECT_EQ(session.ledger().kept_entries, 0);
        Session fresh = open_tiny(options);
        ASSERT_TRUE(session.prefill(prompt(), hooks).ok());
        ASSERT_TRUE(fresh.prefill(prompt(), hooks).ok());
        EXPECT_EQ(lanes_below(session, kContext + kQuestion), lanes_below(fresh, kContext + kQuestion));
        EXPECT_TRUE(std::ranges::equal(session.logits(), fresh.logits()));
    }
    std::vector<int32_t> prompt() const {
        std::vector<int32_t> tokens = context_;
        tokens.insert(tokens.end(), question_.begin(), question_.end());
        return tokens;
    }
};

// What the first chunk keeps is what one shot over that chunk with the question behind it keeps of it.
TEST_P(GuidedChunks, KeepWhatAOneShotPrefillOfTheChunkAndTheQuestionKeeps) {
    const std::string policy = GetParam();
    std::vector<int32_t> first(context_.begin(), context_.begin() + kChunk);
    first.insert(first.end(), question_.begin(), question_.end());
    Session whole = open_tiny(options_of(policy, 24, PrefillSchedule::kOneShot));
    ASSERT_TRUE(whole.prefill(first).ok());

    Session guided = open_tiny(options_of(policy, 24, PrefillSchedule::kChunked));
    Lanes after_first;
    RunHooks hooks;
    hooks.n_question = kQuestion;
    hooks.progress = [&](int64_t n_done, int64_t) {
        if (n_done == kChunk) { after_first = lanes_below(guided, kContext + kQuestion); }
    };
    const Status status = guided.prefill(prompt(), hooks);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(after_first, lanes_below(whole, kChunk));
    EXPECT_EQ(guided.ledger().schedule, "in chunks, question seen");
    EXPECT_EQ(guided.n_tokens(), kContext + kQuestion);
    const int64_t n_lanes = int64_t{guided.n_layers()} * guided.n_kv_heads();
    EXPECT_EQ(guided.ledger().kept_entries, 24 * n_lanes);
}

// The question leaves nothing behind but what is kept: without anything to evict, guided or not is the same to the bit.
TEST_P(GuidedChunks, AreTheSameAsOthersWhereNothingIsEvicted) {
    SessionOptions options = options_of(GetParam(), kContext + kQuestion, PrefillSchedule::kChunked);
    Session plain = open_tiny(options);
    Session guided = open_tiny(options);
    RunHooks hooks;
    hooks.n_question = kQuestion;
    ASSERT_TRUE(plain.prefill(prompt()).ok());
    ASSERT_TRUE(guided.prefill(prompt(), hooks).ok());
    EXPECT_EQ(lanes_below(plain, kContext + kQuestion), lanes_below(guided, kContext + kQuestion));
    // Chunks end elsewhere, so sums may round otherwise; the best token is the same.
    for (int i = 0; i < 4; ++i) { EXPECT_EQ(*plain.decode(), *guided.decode()); }
}

// A run that is cancelled between chunks leaves the session as it was: empty, and as good as new.
TEST_P(GuidedChunks, CancelledHalfWayLeaveTheSessionAsItWas) {
    const SessionOptions options = options_of(GetParam(), 24, PrefillSchedule::kChunked);
    Session session = open_tiny(options);
    std::atomic<bool> cancel = false;
    RunHooks hooks;
    hooks.n_question = kQuestion;
    hooks.cancel = &cancel;
    hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done >= 2 * kChunk; };
    EXPECT_EQ(session.prefill(prompt(), hooks).code(), ErrorCode::kCancelled);
    hooks.cancel = nullptr;
    hooks.progress = {};
    expect_as_new(session, options, hooks);
}

// A layer fails while the question runs behind the second chunk, when lanes of some layers hold it and of others do not.
TEST_P(GuidedChunks, AFailureWhileTheQuestionRunsLeavesTheSessionAsItWas) {
    const SessionOptions options = options_of(GetParam(), 24, PrefillSchedule::kChunked);
    Session session = open_tiny(options);
    RunHooks hooks;
    hooks.n_question = kQuestion;
    LayerProbe layers(session);
    int n_questions = 0;
    layers.set_query_observer([&](int layer, std::span<const float>, int n, int32_t) -> Status {
        n_questions += n == kQuestion && layer == 0 ? 1 : 0;
        if (n_questions == 2 && layer == 1) { return {ErrorCode::kOutOfMemory, "injected"}; }
        return {};
    });
    EXPECT_EQ(session.prefill(prompt(), hooks).message(), "injected");
    layers.set_query_observer({});
    expect_as_new(session, options, hooks);
}

TEST_P(GuidedChunks, AQuestionIsNoLongerThanThePrompt) {
    Session session = open_tiny(options_of(GetParam(), 24, PrefillSchedule::kChunked));
    RunHooks hooks;
    hooks.n_question = kQuestion + 1;
    const Status status = session.prefill(question_, hooks);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find("n_question is 12 of a prompt of 11"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Policies, GuidedChunks,
                         ::testing::Values("snapkv:window=8", "snapkv:window=8+ada", "h2o:recent=4", "tova:recent=4",
                                           "laprox:window=8", "snapkv:window=8+critical", "expected:recent=4", "knorm:recent=4",
                                           "snapkv:window=8+caote:space=output", "matprod:window=8:group=exact"),
                         [](const auto & of) {
                             std::string name;
                             for (const char c : std::string(of.param)) { name += std::isalnum(c) != 0 ? c : '_'; }
                             return name;
                         });

}  // namespace
}  // namespace pith::guided_chunks_test
