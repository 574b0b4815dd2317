// shared_model_test.cpp - sessions and engines of one model on several threads, sessions under random calls of their own: they
// share the weights and what is made of them, and nobody sees that of another. scripts/sanitize runs this with ThreadSanitizer.
//
// PITH_RANDOM_STEPS   calls in all (1,500, a third of them in sessions of several threads each)
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "engine/gated_model.h"
#include "engine/random_walk.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::shared_model_test {
namespace {

constexpr int kThreads = 3;
constexpr int kTests = 3;

int n_steps() {
    const char * text = std::getenv("PITH_RANDOM_STEPS");
    return text != nullptr ? std::atoi(text) : 1500;
}

// Every policy on every thread in turn, so that each thing of the model's is first wanted by several at a time.
void walk_on_threads(const Model & model, const std::vector<std::string> & policies, int session_threads) {
    constexpr int kWalk = 25;
    const int n_walks = std::max(1, n_steps() / kTests / kThreads / kWalk);
    const auto walk = [&](int thread) {
        for (int i = 0; i < n_walks && !::testing::Test::HasFailure(); ++i) {
            SessionOptions options;
            options.policy = policies[static_cast<size_t>(i) % policies.size()];
            options.budget = 40;
            options.n_threads = session_threads;
            options.prefill = (i + thread) % 2 == 0 ? PrefillSchedule::kOneShot : PrefillSchedule::kChunked;
            options.chunk = 16;
            options.evict_every = 8;
            const corpus::Random dice(corpus::SeedSpace::kTask, static_cast<uint64_t>(thread), static_cast<uint64_t>(i));
            testing::RandomWalk random(model, options, dice);
            for (int step = 0; step < kWalk && !::testing::Test::HasFailure(); ++step) { random.step(); }
            if (!::testing::Test::HasFailure()) { random.check_survivors(); }
        }
    };
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) { threads.emplace_back(walk, thread); }
}

TEST(SharedModel, SessionsOnThreadsOfTheirOwnDoNotSeeEachOther) {
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    walk_on_threads(
        *model, {"laprox:window=8", "expected:future=8:recent=8+ada", "snapkv:window=8+caote", "auto", "score:window=8"}, 1);
}

TEST(SharedModel, SessionsWithGatesDoNotEither) {
    RandomModelSpec spec = testing::tiny_spec();
    spec.weight_type = "q8_0";
    GateConfig gate = testing::even_gate();
    gate.causal = true;
    const auto model = testing::gated_model(spec, gate);
    ASSERT_TRUE(model.ok()) << model.status().message();
    walk_on_threads(*model, {"gated+snapkv:window=8", "laprox:window=8", "gate:recent=8"}, 1);
}

// What an engine answers to a mixture of requests: two of them go on from a third, one comes late and goes first.
std::vector<std::vector<int32_t>> answers_of_engine(const Model & model, int n_threads) {
    EngineOptions options;
    options.n_threads = n_threads;
    options.max_rows = 32;
    options.max_sequences = 4;
    options.type_k = options.type_v = KvType::kF32;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<int64_t> ids;
    const auto submit = [&](const char * policy, int n, int64_t after, int priority) {
        Request request;
        request.tokens = testing::random_tokens(n, 384, static_cast<unsigned>(n));
        request.options.policy = policy;
        if (std::string(policy) != "full") { request.options.budget = 36; }
        request.options.chunk = 16;
        request.options.evict_every = 4;
        request.options.prefill = n % 2 == 0 ? PrefillSchedule::kOneShot : PrefillSchedule::kChunked;
        request.after = after;
        request.keep = policy == std::string("h2o");
        request.max_tokens = request.keep ? 0 : 10;
        request.priority = priority;
        const auto id = engine->submit(std::move(request));
        EXPECT_TRUE(id.ok()) << id.status().message();
        ids.push_back(id.ok() ? *id : 0);
    };
    submit("h2o", 81, 0, 0);
    EXPECT_TRUE(engine->run().ok());
    submit("laprox:window=8", 70, 0, 0);
    submit("expected:future=8:recent=8+ada", 61, 0, 0);
    submit("full", 40, ids[0], 0);
    submit("full", 23, ids[0], 0);
    for (int i = 0; i < 12; ++i) { EXPECT_TRUE(engine->step().ok()); }
    submit("snapkv:window=8+caote", 55, 0, 1);
    EXPECT_TRUE(engine->run().ok());
    std::vector<std::vector<int32_t>> answers;
    for (const int64_t id : ids) {
        EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message();
        answers.emplace_back(engine->answer(id).begin(), engine->answer(id).end());
    }
    return answers;
}

// Engines on threads of their own, and a session's random calls beside them.
void engines_on_threads(int n_threads) {
    // Of a model of its own, so that what the engines share is made by them.
    const auto twin = testing::tiny_model(testing::tiny_spec());
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok() && twin.ok());
    const auto expected = answers_of_engine(*twin, n_threads);
    const int n_rounds = std::max(1, n_steps() / 750);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < n_rounds && !::testing::Test::HasFailure(); ++round) {
                EXPECT_EQ(answers_of_engine(*model, n_threads), expected);
            }
        });
    }
    walk_on_threads(*model, {"laprox:window=8", "snapkv:window=8+caote"}, n_threads);
}

TEST(SharedModel, EnginesAndSessionsOnThreadsOfTheirOwnDoNotSeeEachOther) {
    engines_on_threads(1);
}

TEST(SharedModel, EnginesOfSeveralThreadsEachDoNotEither) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not see how OpenMP's threads wait for each other, and takes all they do for races";
#endif
    engines_on_threads(2);
}

TEST(SharedModel, SessionsOfSeveralThreadsEachDoNotEither) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not see how OpenMP's threads wait for each other, and takes all they do for races";
#endif
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    walk_on_threads(*model, {"laprox:window=8", "h2o:recent=8+joint"}, 2);
}

}  // namespace
}  // namespace pith::shared_model_test
