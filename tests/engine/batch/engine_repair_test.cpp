// engine_repair_test.cpp - what a prompt's end looks for among what was evicted comes back in an engine as it does in a session
// of its own, whoever else is read meanwhile and wherever its beginning's state came from.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/fail_at.h"
#include "engine/tiny_model.h"
#include "model/gguf_edit.h"
#include "pith/batch_engine.h"

namespace pith::engine_repair_test {
namespace {

using testing::random_tokens;
using testing::TempFolder;

constexpr int kGrid = 32;
constexpr int kPrompt = 330;
constexpr int kLookAt = 256;  // the last of the grid's places that leaves 64 tokens
constexpr int kLooking = 32;  // tokens: no more than come between two evictions
constexpr int kAnswer = 40;

const Model & tiny() {
    static const Model model = testing::tiny_model(testing::tiny_spec()).value();
    return model;
}

EngineOptions engine_options() {
    EngineOptions options;
    options.n_threads = 1;
    options.grid = kGrid;
    options.max_rows = 48;
    return options;
}

struct Case {
    const char * policy;
    bool looks_back = false;
};

Request request_of(const Case & of, unsigned seed = 5) {
    Request request;
    request.tokens = random_tokens(kPrompt, 384, seed);
    request.options.policy = of.policy;
    request.options.budget = Budget(40);
    request.options.chunk = 16;
    request.options.evict_every = 8;
    request.options.cold = KvType::kQ8_0;
    request.options.look_back = of.looks_back;
    request.max_tokens = kAnswer;
    return request;
}

struct Outcome {
    std::vector<int32_t> answer;
    std::vector<std::vector<int32_t>> lanes;
    int64_t n_returned = 0;
    double missed = 0;
    int64_t n_cached = 0;

    bool operator==(const Outcome &) const = default;
};

template <class Of>
std::vector<std::vector<int32_t>> lanes_of(Of && lane) {
    std::vector<std::vector<int32_t>> all;
    for (int l = 0; l < tiny().info().n_layers; ++l) {
        for (int h = 0; h < tiny().info().n_kv_heads; ++h) {
            const auto positions = lane(l, h);
            all.emplace_back(positions.begin(), positions.end());
        }
    }
    return all;
}

// In a session: `context`, what `asked` looks for, and then the rest of the prompt; where that looks back, it chooses itself.
Outcome alone(const Request & request, int n_context, int n_asked, bool repairs = true) {
    SessionOptions options = request.options;
    options.grid = kGrid;
    options.n_threads = 1;
    options.prefill = PrefillSchedule::kChunked;
    Session session = tiny().session(options).value();
    const std::span<const int32_t> tokens = request.tokens;
    EXPECT_TRUE(session.prefill(tokens.first(static_cast<size_t>(n_context))).ok());
    RunHooks hooks;
    hooks.repair = repairs && options.look_back;
    if (!hooks.repair) { EXPECT_TRUE(session.repair(tokens.last(static_cast<size_t>(n_asked)), repairs).ok()); }
    EXPECT_TRUE(session.prefill(tokens.subspan(static_cast<size_t>(n_context)), hooks).ok());
    Outcome outcome;
    for (int i = 0; i < request.max_tokens; ++i) {
        outcome.answer.push_back(likeliest_token(session.logits()));
        if (i + 1 < request.max_tokens) { EXPECT_TRUE(session.append(outcome.answer.back()).ok()); }
    }
    outcome.lanes = lanes_of([&](int l, int h) { return session.lane_positions(l, h); });
    outcome.n_returned = session.ledger().returned_entries;
    outcome.missed = session.ledger().kv_missed;
    return outcome;
}

Outcome outcome_of(const Engine & engine, int64_t id) {
    EXPECT_EQ(engine.state(id), RequestState::kDone) << engine.status(id).message();
    Outcome outcome;
    outcome.answer.assign(engine.answer(id).begin(), engine.answer(id).end());
    outcome.lanes = lanes_of([&](int l, int h) { return engine.lane_positions(id, l, h); });
    const Ledger ledger = engine.ledger(id).value();
    outcome.n_returned = ledger.returned_entries;
    outcome.missed = ledger.kv_missed;
    outcome.n_cached = engine.n_cached(id);
    return outcome;
}

// keep: so that its lanes can be looked at.
Outcome asked_of(Engine & engine, Request request) {
    request.keep = true;
    const auto id = engine.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.status().message();
    EXPECT_TRUE(engine.run().ok());
    return outcome_of(engine, *id);
}

class EngineRepair : public ::testing::TestWithParam<Case> {};

TEST_P(EngineRepair, BringsBackWhatASessionDoes) {
    const Request request = request_of(GetParam());
    const Outcome expected = alone(request, kLookAt, kLooking);
    ASSERT_GT(expected.n_returned, 0);
    ASSERT_GT(expected.missed, 0);
    Engine engine = tiny().engine(engine_options()).value();
    EXPECT_EQ(asked_of(engine, request), expected);

    Request told = request;
    told.repair = false;
    Outcome without = alone(request, kLookAt, kLooking, /*repairs=*/false);
    EXPECT_EQ(asked_of(engine, told), without);
    EXPECT_EQ(without.n_returned, 0);
    if (!GetParam().looks_back) { EXPECT_DOUBLE_EQ(without.missed, expected.missed); }  // else more tokens have asked
    EXPECT_GT(without.missed, 0);
    EXPECT_NE(without.lanes, expected.lanes);
}

TEST_P(EngineRepair, BringsBackTheSameBesideOthers) {
    Engine engine = tiny().engine(engine_options()).value();
    std::vector<int64_t> ids;
    for (const unsigned seed : {5U, 6U, 7U}) {
        Request request = request_of(GetParam(), seed);
        request.keep = true;
        ids.push_back(engine.submit(std::move(request)).value());
    }
    ASSERT_TRUE(engine.run().ok());
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(outcome_of(engine, ids[i]), alone(request_of(GetParam(), 5 + i), kLookAt, kLooking)) << "seed " << 5 + i;
    }
}

// What is kept of a prompt's beginning has not been looked through: the next one that begins alike answers as if read anew.
TEST_P(EngineRepair, StatesThatOthersBeginWithAreThoseOfTheTokensAlone) {
    const TempFolder folder;
    Request longer = request_of(GetParam());
    const auto more = random_tokens(150, 384, 9);
    longer.tokens.insert(longer.tokens.end(), more.begin(), more.end());
    constexpr int kLongerLooksAt = 416;
    const Outcome first = alone(request_of(GetParam()), kLookAt, kLooking);
    const Outcome second = alone(longer, kLongerLooksAt, kLooking);
    const auto expect = [](Outcome got, const Outcome & expected, int64_t n_cached) {
        EXPECT_EQ(got.n_cached, n_cached);
        got.n_cached = 0;
        EXPECT_EQ(got, expected);
    };
    for (const bool in_memory : {true, false}) {
        SCOPED_TRACE(in_memory ? "in memory" : "in a folder");
        EngineOptions options = engine_options();
        if (in_memory) {
            options.cache_memory_bytes = uint64_t{64} << 20U;
        } else {
            options.cache_dir = folder.file("states");
        }
        std::optional<Engine> engine = tiny().engine(options).value();
        expect(asked_of(*engine, request_of(GetParam())), first, 0);
        expect(asked_of(*engine, request_of(GetParam())), first, kLookAt);
        if (!in_memory) { engine = tiny().engine(options).value(); }  // what is cold came with the file
        expect(asked_of(*engine, longer), second, kLookAt);
        expect(asked_of(*engine, request_of(GetParam())), first, kLookAt);
        Request warm = request_of(GetParam());
        warm.options.look_back = false;
        warm.options.cold.reset();  // nothing to look through: another state
        EXPECT_EQ(asked_of(*engine, warm).n_cached, 0);
        Request other = request_of(GetParam());  // its prompt is read otherwise
        other.options.look_back = !other.options.look_back;
        EXPECT_EQ(asked_of(*engine, other).n_cached, 0);
    }
}

TEST_P(EngineRepair, LooksBeforeWhatFollowsAKeptPromptIsRead) {
    Request request = request_of(GetParam());
    const Outcome expected = alone(request, 290, kPrompt - 290);
    ASSERT_GT(expected.n_returned, 0);
    Engine engine = tiny().engine(engine_options()).value();
    Request base = request;
    base.tokens.resize(290);
    base.repair = false;
    base.keep = true;
    base.max_tokens = 0;
    base.options.prefill = PrefillSchedule::kChunked;
    const int64_t kept = engine.submit(std::move(base)).value();
    ASSERT_TRUE(engine.run().ok());
    const auto before = outcome_of(engine, kept).lanes;
    for (int i = 0; i < 2; ++i) {  // the one leaves it to the other as it was
        Request fork;
        fork.after = kept;
        fork.tokens.assign(request.tokens.begin() + 290, request.tokens.end());
        fork.max_tokens = kAnswer;
        EXPECT_EQ(asked_of(engine, std::move(fork)), expected);
        EXPECT_EQ(outcome_of(engine, kept).lanes, before);
    }
}

// A step that is cancelled while a prompt's end looks takes the prompt back.
TEST_P(EngineRepair, ACancelledStepChangesNoAnswer) {
    const Outcome expected = alone(request_of(GetParam()), kLookAt, kLooking);
    Engine engine = tiny().engine(engine_options()).value();
    Request request = request_of(GetParam());
    request.keep = true;
    const int64_t id = engine.submit(std::move(request)).value();
    std::atomic<bool> cancel{true};
    int n = 0;
    for (bool more = true; more; ++n) {
        const bool looks_next = engine.ledger(id).value().n_prompt == kLookAt && n < 60;
        more = engine.step(looks_next ? &cancel : nullptr).value();
    }
    EXPECT_EQ(outcome_of(engine, id), expected);
    EXPECT_GT(engine.ledger().n_prompt, 0);
    EXPECT_EQ(engine.ledger().n_prompt, kPrompt);
}

// An answer's token that is cancelled while the answer looks for what was evicted, also of the token that evicts, is fed again
// and finds what it found.
TEST_P(EngineRepair, AnAnswerIsCancelledAtEveryPointAndGoesOn) {
    Request request = request_of(GetParam());
    request.options.repair_every = 1;  // also where the grid evicts
    request.keep = true;
    const Outcome expected = alone(request, kLookAt, kLooking);
    Engine engine = tiny().engine(engine_options()).value();
    const int64_t id = engine.submit(std::move(request)).value();
    int n_cancelled = 0;
    int64_t k = 1;
    for (bool more = true; more;) {
        const int64_t n_before = engine.ledger().n_generated;
        const bool answers = engine.state(id) == RequestState::kAnswering;
        if (answers) { testing::fail_at(testing::Fails::kCancel, k); }
        more = engine.step(answers ? &testing::cancel_flag() : nullptr).value();
        const bool was_cancelled = testing::stop_failing() && answers && engine.ledger().n_generated == n_before;
        n_cancelled += was_cancelled ? 1 : 0;
        k = was_cancelled ? k + 1 : 1;
    }
    EXPECT_EQ(outcome_of(engine, id), expected);
    EXPECT_GT(engine.ledger(id).value().n_answer_repairs, 0);
    EXPECT_GT(n_cancelled, kAnswer);
}

// Its end is no question: it is evicted behind the last chunk, also where nothing behind a prompt is.
TEST_P(EngineRepair, AContextWhoseQuestionsComeLaterLooksForNothing) {
    for (const int evict_every : {0, 8}) {
        Request request = request_of(GetParam());
        request.options.evict_every = evict_every;
        request.max_tokens = 0;
        request.repair = false;
        EngineOptions options = engine_options();
        options.grid = 0;
        Engine engine = tiny().engine(options).value();
        request.options.prefill = PrefillSchedule::kChunked;
        Session session = tiny().session(request.options).value();
        ASSERT_TRUE(session.prefill(request.tokens).ok());
        const Outcome context = asked_of(engine, request);
        EXPECT_EQ(context.lanes, lanes_of([&](int l, int h) { return session.lane_positions(l, h); }));
        EXPECT_LT(context.missed, 0) << "nothing was looked for";
        for (const auto & lane : context.lanes) { EXPECT_LE(std::ssize(lane), 40); }
    }
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineRepair,
                         ::testing::Values(Case{"h2o"}, Case{"snapkv:window=8"}, Case{"keydiff"}, Case{"h2o", true},
                                           Case{"keydiff", true}));

// Where answers are not evicted, neither is the prompt's end that looks for what was: it is reserved for all the same.
TEST(EngineRepair, ReservesForAPromptsEndThatNothingEvicts) {
    EngineOptions options = engine_options();
    options.ceiling = Budget(BudgetKind::kBytes, 4.0 * (1U << 20U));
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    Request request = request_of({"h2o:recent=8"});
    request.options.evict_every = 0;
    const auto id = engine->submit(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    size_t most = 0;
    for (bool more = true; more && engine->state(*id) < RequestState::kDone;) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok()) << stepped.status().message();
        more = *stepped;
        const EngineLedger ledger = engine->ledger();
        if (ledger.n_running == 0) { continue; }
        ASSERT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes);
        most = std::max(most, ledger.kv_allocated_bytes);
    }
    EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
    EXPECT_GT(most, 0U);
}

// What comes back lies in a file until its room is free: under a ceiling lanes take no more than was reserved.
TEST(EngineRepair, BringsBackWithinTheCeiling) {
    std::vector<size_t> peaks;
    std::vector<Outcome> outcomes;
    for (const bool has_ceiling : {false, true}) {
        EngineOptions options = engine_options();
        if (has_ceiling) { options.ceiling = Budget(BudgetKind::kBytes, 4.0 * (1U << 20U)); }
        Engine engine = tiny().engine(options).value();
        Request request = request_of({"h2o"});
        request.tokens = random_tokens(1600, 384);
        request.options.budget = Budget(512);  // lanes of several pages, and so is what comes back
        request.keep = true;
        const int64_t id = engine.submit(std::move(request)).value();
        ASSERT_TRUE(engine.run().ok());
        outcomes.push_back(outcome_of(engine, id));
        peaks.push_back(engine.ledger(id).value().kv_peak_bytes);
    }
    EXPECT_EQ(outcomes[0], outcomes[1]);
    EXPECT_GT(outcomes[1].n_returned, 0);
    EXPECT_LT(peaks[1], peaks[0]);
}

TEST(EngineRepair, WhereNothingIsEvictedOrTheQuestionIsInSightNothingIsLookedFor) {
    Engine engine = tiny().engine(engine_options()).value();
    Request full = request_of({"full"});
    full.options.budget = {};
    EXPECT_LT(asked_of(engine, full).missed, 0);
    Request seen = request_of({"h2o"});
    seen.n_question = 20;
    EXPECT_LT(asked_of(engine, seen).missed, 0);
    Request small = request_of({"h2o"});
    small.tokens.resize(60);
    EXPECT_LT(asked_of(engine, small).missed, 0);
}

}  // namespace
}  // namespace pith::engine_repair_test
