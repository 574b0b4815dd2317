// batch_engine_line_test.cpp - who waits for what, what is refused, and what the ledger says behind every call.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/text.h"
#include "engine/answers_alone.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::batch_engine_line_test {
namespace {

using testing::answer_alone;
using testing::expect_answer;
using testing::random_tokens;

const Model & tiny() {
    static const auto model = testing::tiny_model(testing::tiny_spec());
    return *model;
}

Result<Engine> engine_of(size_t ceiling) {
    EngineOptions options = testing::f32_engine_options();
    if (ceiling > 0) { options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(ceiling)); }
    return tiny().engine(options);
}

Request request_of(int n, int max_tokens = 8) {
    return testing::f32_request(n, max_tokens, 384);
}

Request kept_prompt(int n) {
    Request request = request_of(n, 0);
    request.keep = true;
    return request;
}

Request behind(int64_t base, int n, int max_tokens = 8) {
    Request request;
    request.after = base;
    request.tokens = random_tokens(n, 384, static_cast<unsigned>(n));
    request.max_tokens = max_tokens;
    return request;
}

// Read layer by layer.
Request layered(int n) {
    Request request = request_of(n);
    request.options.policy = "snapkv:window=8";
    request.options.budget = 32;
    request.options.prefill = PrefillSchedule::kOneShot;
    return request;
}

TEST(BatchEngineLine, RefusesWhatCanNeverFitBesideWhatItGoesOnFrom) {
    auto engine = engine_of(size_t{2} << 20U);
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(700));
    ASSERT_TRUE(base.ok() && engine->run().ok());
    const auto refused = engine->submit(behind(*base, 700));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    const std::string kept = with_commas(static_cast<int64_t>(engine->ledger().kv_kept_bytes));
    EXPECT_NE(refused.status().message().find(kept), std::string::npos) << refused.status().message();
    const auto alone = engine->submit(request_of(700));
    ASSERT_TRUE(alone.ok() && engine->cancel(*alone).ok()) << "so much fits";

    const auto id = engine->submit(behind(*base, 20));
    ASSERT_TRUE(id.ok()) << id.status().message();
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
}

TEST(BatchEngineLine, CountsWhatIsHeldBehindEveryCancelAndForget) {
    auto engine = engine_of(0);
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(300));
    ASSERT_TRUE(base.ok() && engine->run().ok());
    const size_t of_base = engine->ledger().kv_kept_bytes;
    const auto fork = engine->submit(behind(*base, 5, 100));
    const auto other = engine->submit(request_of(100, 100));
    for (int i = 0; i < 3; ++i) { ASSERT_TRUE(engine->step().ok()); }
    const EngineLedger before = engine->ledger();
    ASSERT_EQ(before.n_running, 2);

    ASSERT_TRUE(engine->cancel(*other).ok());
    const EngineLedger without = engine->ledger();
    EXPECT_LT(without.kv_reserved_bytes, before.kv_reserved_bytes);
    EXPECT_LT(without.kv_allocated_bytes, before.kv_allocated_bytes);
    ASSERT_TRUE(engine->forget(*base).ok());
    EXPECT_GE(engine->ledger().kv_allocated_bytes, of_base) << "it is still read";
    ASSERT_TRUE(engine->cancel(*fork).ok());
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U) << "nobody reads it any more";
    EXPECT_EQ(engine->ledger().kv_reserved_bytes, 0U);

    const auto second = engine->submit(kept_prompt(200));
    ASSERT_TRUE(second.ok() && engine->run().ok());
    EXPECT_GT(engine->ledger().kv_reserved_bytes, 0U);
    ASSERT_TRUE(engine->forget(*second).ok());
    EXPECT_EQ(engine->ledger().kv_reserved_bytes, 0U);
}

TEST(BatchEngineLine, HasNoPositionsOfLanesThatThereAreNot) {
    auto engine = engine_of(0);
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(30));
    ASSERT_TRUE(base.ok() && engine->run().ok());
    SessionOptions options;
    options.policy = "full";
    auto session = tiny().session(options);
    ASSERT_TRUE(session.ok() && session->prefill(random_tokens(30, 384)).ok());
    EXPECT_EQ(engine->lane_positions(*base, 1, 1).size(), 30U);
    EXPECT_EQ(session->lane_positions(1, 1).size(), 30U);
    constexpr int kMost = std::numeric_limits<int>::max();
    for (const auto & [layer, kv_head] :
         std::vector<std::pair<int, int>>{{1, -1}, {1, 2}, {3, 0}, {-1, 0}, {0, -1}, {kMost, kMost}, {-kMost, -kMost}}) {
        EXPECT_TRUE(engine->lane_positions(*base, layer, kv_head).empty()) << layer << ", " << kv_head;
        EXPECT_TRUE(session->lane_positions(layer, kv_head).empty()) << layer << ", " << kv_head;
    }
}

// Without a folder for states: what is kept goes where the answer went, instead of ending it.
TEST(BatchEngineLine, BringsBackAnAnswerBesideAKeptPromptThatCameMeanwhile) {
    auto engine = engine_of(size_t{2} << 20U);
    ASSERT_TRUE(engine.ok());
    const Request answer = request_of(640, 30);
    const auto low = engine->submit(answer);
    while (engine->answer(*low).size() < 5) { ASSERT_TRUE(engine->step().ok()); }
    Request prompt = kept_prompt(700);
    prompt.priority = 1;
    const auto base = engine->submit(prompt);
    ASSERT_TRUE(base.ok() && engine->step().ok());
    ASSERT_EQ(engine->state(*low), RequestState::kSetAside);
    ASSERT_TRUE(engine->run().ok());
    ASSERT_EQ(engine->state(*base), RequestState::kDone) << engine->status(*base).message();
    ASSERT_EQ(engine->state(*low), RequestState::kDone) << engine->status(*low).message();
    expect_answer(*engine, *low, answer_alone(tiny(), answer.options, {answer.tokens}, 30));
    EXPECT_LE(engine->ledger().kv_peak_bytes, size_t{2} << 20U);

    const Request fork = behind(*base, 5);
    const auto id = engine->submit(fork);
    ASSERT_TRUE(id.ok() && engine->run().ok());
    ASSERT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
    expect_answer(*engine, *id, answer_alone(tiny(), prompt.options, {prompt.tokens, fork.tokens}, 8));
}

// Bytes that a request reserves by itself.
size_t bytes_reserved(const Request & request) {
    auto engine = engine_of(0);
    EXPECT_TRUE(engine.ok() && engine->submit(request).ok() && engine->step().ok());
    return engine->ledger().kv_reserved_bytes;
}

// Four prompts are read layer by layer. A fifth waits for its turn among them; one that is read in chunks goes past it, unless
// it would take memory that the fifth will want.
TEST(BatchEngineLine, GoesPastOneThatWaitsForItsTurnAmongLayeredPrompts) {
    const Request layers = layered(200);
    const Request chunks = request_of(40);
    const size_t enough = 5 * bytes_reserved(layers) + bytes_reserved(chunks);
    for (const size_t ceiling : {enough, enough - 1}) {
        auto engine = engine_of(ceiling);
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (int i = 0; i < 5; ++i) { ids.push_back(*engine->submit(layers)); }
        const auto last = engine->submit(chunks);
        ASSERT_TRUE(last.ok() && engine->step().ok());
        EXPECT_EQ(engine->state(ids[3]), RequestState::kReading);
        EXPECT_EQ(engine->state(ids[4]), RequestState::kWaiting);
        EXPECT_EQ(engine->state(*last) == RequestState::kWaiting, ceiling < enough);
        ids.push_back(*last);
        ASSERT_TRUE(engine->run().ok());
        for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
        EXPECT_LE(engine->ledger().kv_peak_bytes, ceiling);
    }
}

TEST(BatchEngineLine, CountsAPromptThatIsTakenBackAndReadAnewOnce) {
    for (const Request & request : {request_of(100), layered(100)}) {
        auto engine = engine_of(0);
        ASSERT_TRUE(engine.ok());
        const auto id = engine->submit(request);
        ASSERT_TRUE(engine->step().ok() && engine->step().ok());
        ASSERT_EQ(engine->state(*id), RequestState::kReading);
        const std::atomic<bool> cancel{true};
        ASSERT_TRUE(engine->step(&cancel).ok());
        EXPECT_EQ(engine->state(*id), RequestState::kWaiting);
        EXPECT_EQ(engine->ledger().n_prompt, 0);
        ASSERT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->ledger().n_prompt, 100);
        EXPECT_EQ(engine->ledger().n_generated, 7) << "the last is not fed";
    }
}

// A chunk as long as an int can say, and a question beside it.
TEST(BatchEngineLine, ReservesForTheLongestChunkWhatItMayTake) {
    Request request = request_of(100);
    request.options.policy = "snapkv:window=8";
    request.options.budget = 20;
    request.options.prefill = PrefillSchedule::kChunked;
    request.options.evict_every = 4;
    request.n_question = 5;
    request.options.chunk = 1 << 20;
    const size_t expected = bytes_reserved(request);
    request.options.chunk = std::numeric_limits<int>::max();
    EXPECT_EQ(bytes_reserved(request), expected);
}

}  // namespace
}  // namespace pith::batch_engine_line_test
