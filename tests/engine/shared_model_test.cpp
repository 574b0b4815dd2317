// shared_model_test.cpp - sessions of one model on several threads, each under random calls of its own: they share the weights
// and what is made of them, and nobody sees that of another. scripts/sanitize runs this with ThreadSanitizer.
//
// PITH_RANDOM_STEPS   calls in all (1,500, a third of them in sessions of several threads each)
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "engine/gated_model.h"
#include "engine/random_walk.h"
#include "engine/tiny_model.h"

namespace pith {
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

TEST(SharedModel, SessionsOfSeveralThreadsEachDoNotEither) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not see how OpenMP's threads wait for each other, and takes all they do for races";
#endif
    const auto model = testing::tiny_model(testing::tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    walk_on_threads(*model, {"laprox:window=8", "h2o:recent=8+joint"}, 2);
}

}  // namespace
}  // namespace pith
