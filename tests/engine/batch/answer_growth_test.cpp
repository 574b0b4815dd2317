// answer_growth_test.cpp - requests reserve for what is likely: long answers take more room as they go on, and whoever gives
// way to them comes back and says the same. Whatever fails meanwhile ends one request at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "core/likeliest_token.h"
#include "engine/answers_alone.h"
#include "engine/fail_everywhere.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::answer_growth_test {
namespace {

using testing::answer_alone;
using testing::random_tokens;

constexpr int kVocab = 384;
constexpr size_t kMiB = size_t{1} << 20U;

const Model & tiny() {
    static const Model model = testing::tiny_model(testing::tiny_spec()).value();
    return model;
}

Result<Engine> engine_of(size_t ceiling, uint64_t cache_memory = 0) {
    EngineOptions options = testing::f32_engine_options();
    options.ceiling = Budget(BudgetKind::kBytes, static_cast<double>(ceiling));
    options.cache_memory_bytes = cache_memory;
    return tiny().engine(options);
}

Request request_of(int n, int max_tokens, unsigned seed) {
    Request request = testing::f32_request(n, max_tokens, kVocab);
    request.tokens = random_tokens(n, kVocab, seed);
    return request;
}

// Four conversations in turns, each of which may say 1,000 tokens and says five. What they have read fits in the ceiling five
// times; with all that they may say, once.
TEST(AnswerGrowth, WhatAnswersMaySayDropsNoStateThatOthersGoOnFrom) {
    auto engine = engine_of(2 * kMiB, 64 * kMiB);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    for (int turn = 1; turn <= 3; ++turn) {
        for (unsigned agent = 1; agent <= 4; ++agent) {
            Request request = request_of(100 + 25 * turn, 1000, agent);
            int n_said = 0;
            request.on_token = [&n_said](int32_t) { return ++n_said < 5; };
            const auto id = engine->submit(request);
            ASSERT_TRUE(id.ok()) << id.status().message();
            ASSERT_TRUE(engine->run().ok());
            ASSERT_EQ(engine->state(*id), RequestState::kDone);
            if (turn > 1) { EXPECT_GE(engine->n_cached(*id), 55 + 25 * turn) << "turn " << turn << " of " << agent; }
            ASSERT_TRUE(engine->forget(*id).ok());
        }
    }
    EXPECT_LE(engine->ledger().kv_peak_bytes, 2 * kMiB);
}

TEST(AnswerGrowth, WhatIsReservedGrowsWithTheAnswerUpToAllOfIt) {
    auto engine = engine_of(4 * kMiB);
    ASSERT_TRUE(engine.ok());
    const Request request = request_of(150, 700, 1);
    const auto id = engine->submit(request);
    ASSERT_TRUE(id.ok());
    std::vector<size_t> reserved;
    while (engine->state(*id) < RequestState::kDone) {
        ASSERT_TRUE(engine->step().ok());
        const EngineLedger ledger = engine->ledger();
        if (ledger.n_running == 0) { continue; }
        ASSERT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes);
        if (reserved.empty() || reserved.back() != ledger.kv_reserved_bytes) { reserved.push_back(ledger.kv_reserved_bytes); }
    }
    EXPECT_EQ(reserved.size(), 3U);
    EXPECT_TRUE(std::ranges::is_sorted(reserved));
    testing::expect_answer(*engine, *id, answer_alone(tiny(), request.options, {request.tokens}, request.max_tokens));
}

TEST(AnswerGrowth, RefusesWhatCouldNotSayAllThatItMay) {
    auto engine = engine_of(kMiB);
    ASSERT_TRUE(engine.ok());
    const auto refused = engine->submit(request_of(150, 700, 1));
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
}

// One that would rather say less says as much as there is room for, and no more.
TEST(AnswerGrowth, EndsWhereTheRoomDoesWhereThatIsAskedFor) {
    auto engine = engine_of(kMiB);
    ASSERT_TRUE(engine.ok());
    Request request = request_of(150, 700, 1);
    request.least_tokens = 50;
    const auto id = engine->submit(request);
    ASSERT_TRUE(id.ok()) << id.status().message();
    ASSERT_TRUE(engine->run().ok());
    const auto n = static_cast<int>(engine->answer(*id).size());
    EXPECT_GT(n, 50);
    EXPECT_LT(n, 700);
    testing::expect_answer(*engine, *id, answer_alone(tiny(), request.options, {request.tokens}, n));
    EXPECT_LE(engine->ledger().kv_peak_bytes, kMiB);
    request.least_tokens = n;
    EXPECT_TRUE(engine->submit(request).ok());
    request.least_tokens = n + 1;
    EXPECT_EQ(engine->submit(request).status().code(), ErrorCode::kBudget) << "there is no room for that";
    request.max_tokens = n;
    request.least_tokens = 0;
    EXPECT_TRUE(engine->submit(request).ok());
    request.max_tokens = n + 1;
    EXPECT_EQ(engine->submit(request).status().code(), ErrorCode::kBudget);
}

// Requests that run side by side until one has no more room: how often each was set aside, and what it said.
struct Company {
    std::vector<Request> requests;
    std::vector<int64_t> ids;
    std::map<int64_t, int> n_aside;
    std::map<int64_t, RequestState> were;
    int64_t most_running = 0;

    void submit(Engine & engine) {
        for (const Request & request : requests) {
            const auto id = engine.submit(request);
            ASSERT_TRUE(id.ok()) << id.status().message();
            ids.push_back(*id);
        }
    }
    void look(const Engine & engine, size_t ceiling) {
        const EngineLedger ledger = engine.ledger();
        ASSERT_LE(ledger.kv_reserved_bytes, ceiling);
        ASSERT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes);
        most_running = std::max(most_running, ledger.n_running);
        for (const int64_t id : ids) {
            const RequestState now = engine.state(id);
            n_aside[id] += now == RequestState::kSetAside && were[id] != now ? 1 : 0;
            were[id] = now;
        }
    }
    // One after the other they take a third of that: nobody ends any more.
    static bool is_late(int64_t n_steps) { return n_steps > 10 * 700; }
};

TEST(AnswerGrowth, WhoCameLaterGivesWayOnceAndSaysTheSame) {
    constexpr size_t kCeiling = 2 * kMiB;
    auto engine = engine_of(kCeiling);
    ASSERT_TRUE(engine.ok());
    Company company;
    for (unsigned i = 1; i <= 3; ++i) { company.requests.push_back(request_of(150, 700, i)); }
    company.submit(*engine);
    bool more = true;
    for (int64_t n = 0; more; ++n) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok()) << stepped.status().message();
        more = *stepped;
        ASSERT_NO_FATAL_FAILURE(company.look(*engine, kCeiling));
        ASSERT_FALSE(Company::is_late(n));
    }
    EXPECT_EQ(company.most_running, 3);
    EXPECT_EQ(company.n_aside[company.ids[0]], 0) << "the first has the best right";
    EXPECT_EQ(company.n_aside[company.ids[1]], 1);
    EXPECT_EQ(company.n_aside[company.ids[2]], 1);
    for (size_t i = 0; i < company.ids.size(); ++i) {
        const Request & one = company.requests[i];
        testing::expect_answer(*engine, company.ids[i], answer_alone(tiny(), one.options, {one.tokens}, one.max_tokens));
    }
}

// Three that all come to the end of what they reserved for in one step, and there is not room for all to go on. In that step
// the k-th of something fails.
TEST(AnswerGrowth, WhateverFailsThenEndsOneRequestAtMost) {
    constexpr size_t kCeiling = 1'460'000;
    constexpr size_t kFull = 257;  // tokens of an answer that lacks room
    std::vector<Request> requests;
    std::vector<std::vector<int32_t>> alone;
    for (unsigned i = 1; i <= 3; ++i) {
        requests.push_back(request_of(20, 300, i));
        alone.push_back(answer_alone(tiny(), requests.back().options, {requests.back().tokens}, 300));
    }
    int64_t n_failed = 0;
    int64_t n_aside = 0;
    for (const testing::Fails what : testing::kEveryKind) {
        for (int64_t k = 1;; k = testing::next_place(k)) {
            SCOPED_TRACE("kind " + std::to_string(static_cast<int>(what)) + ", the " + std::to_string(k) + "th");
            auto engine = engine_of(kCeiling);
            ASSERT_TRUE(engine.ok());
            Company company{.requests = requests};
            ASSERT_NO_FATAL_FAILURE(company.submit(*engine));
            bool has_failed = false;
            bool armed = false;
            bool more = true;
            for (int64_t n = 0; more; ++n) {
                const bool now = !armed && engine->answer(company.ids[0]).size() == kFull;
                armed = armed || now;
                if (now) { testing::fail_at(what, k); }
                const auto stepped = engine->step();
                if (now) { has_failed = testing::stop_failing(); }
                ASSERT_TRUE(stepped.ok() || (now && has_failed)) << stepped.status().message();
                more = !stepped.ok() || *stepped;
                ASSERT_NO_FATAL_FAILURE(company.look(*engine, kCeiling));
                ASSERT_FALSE(Company::is_late(n));
            }
            ASSERT_TRUE(armed);
            int n_ended = 0;
            for (size_t i = 0; i < company.ids.size(); ++i) {
                const int64_t id = company.ids[i];
                n_aside += company.n_aside[id];
                if (engine->state(id) == RequestState::kFailed) {
                    ++n_ended;
                    const ErrorCode code = engine->status(id).code();
                    EXPECT_TRUE(code == ErrorCode::kOutOfMemory || code == ErrorCode::kInternal)
                        << engine->status(id).message();
                } else {
                    testing::expect_answer(*engine, id, alone[i]);
                }
            }
            EXPECT_LE(n_ended, has_failed ? 1 : 0);
            if (HasFailure()) { return; }
            if (!has_failed) { break; }
            ++n_failed;
        }
    }
    EXPECT_GT(n_failed, 10);
    EXPECT_GT(n_aside, 0);
}

}  // namespace
}  // namespace pith::answer_growth_test
