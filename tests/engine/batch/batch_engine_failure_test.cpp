// batch_engine_failure_test.cpp - whatever fails inside a call of an engine, at most one request ends with it: the others
// answer as if nothing had happened, and all pages are given back. A step that is cancelled costs none its answer.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "engine/answers_alone.h"
#include "engine/fail_at.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace pith::batch_engine_failure_test {
namespace {

using testing::fail_at;
using testing::Fails;
using testing::random_tokens;
using testing::stop_failing;

// Requests of one engine's life, in the order in which they come.
enum Slot { kBase, kFull, kChunked, kLayered, kFork, kForkThatEvicts, kThatLooks, kCut, kUrgent, kSlots };

Request request_of(Slot slot) {
    const auto make = [](int n, const char * policy, Budget budget, PrefillSchedule prefill) {
        Request request;
        request.tokens = random_tokens(n, 384, 40 + static_cast<unsigned>(n));
        request.options.policy = policy;
        request.options.budget = budget;
        request.options.prefill = prefill;
        request.options.chunk = 24;
        request.options.evict_every = 3;
        request.max_tokens = 9;
        return request;
    };
    switch (slot) {
        case kBase: {
            Request request = make(60, "h2o", 40, PrefillSchedule::kChunked);
            request.keep = true;
            request.max_tokens = 0;
            request.questions = random_tokens(6, 384, 7);
            return request;
        }
        case kFull:
            return make(50, "full", {}, PrefillSchedule::kAuto);
        case kChunked:
            return make(70, "snapkv:window=8", 36, PrefillSchedule::kChunked);
        case kLayered:
            return make(64, "laprox:window=8", 40, PrefillSchedule::kOneShot);
        case kFork:
            return make(4, "", {}, PrefillSchedule::kAuto);
        case kForkThatEvicts:
            return make(30, "", {}, PrefillSchedule::kAuto);
        case kThatLooks: {
            Request request = make(110, "h2o", 36, PrefillSchedule::kChunked);
            request.options.cold = KvType::kQ8_0;
            return request;
        }
        case kCut:
            return make(20, "full", {}, PrefillSchedule::kAuto);
        default: {
            Request request = make(31, "knorm:recent=8", 30, PrefillSchedule::kChunked);
            request.priority = 1;
            return request;
        }
    }
}

// What fails while a call of the engine is under way: in its number's, the k-th of a kind.
struct Trouble {
    int call = -1;
    Fails what = Fails::kNew;
    int64_t k = 1;
};

// One engine from its first request to its last byte. What is done next follows from what has been.
class Life {
public:
    Life(const Model & model, const Trouble & trouble) : trouble_(trouble) {
        EngineOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        options.max_rows = 40;
        options.max_sequences = 5;
        auto engine = model.engine(options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        engine_.emplace(std::move(*engine));
    }

    // false: it is over.
    bool next() {
        if (gathered_) { return forget(); }
        if (!ids_.contains(kBase)) { return submit(kBase); }
        if (!ended(kBase)) { return step(); }
        if (engine_->state(ids_[kBase]) == RequestState::kFailed) {  // the others want another
            ++n_failed_;
            ids_.erase(kBase);
            return submit(kBase);
        }
        for (const Slot slot : {kFull, kChunked, kLayered, kFork, kForkThatEvicts, kThatLooks, kCut}) {
            if (!ids_.contains(slot)) { return submit(slot); }
        }
        if (n_steps_ % 2 == 0 && !looked_) { return look(); }
        looked_ = false;
        const bool late = ended(kFull) || !engine_->answer(ids_[kFull]).empty();
        if (!ids_.contains(kUrgent) && late) { return submit(kUrgent); }
        if (!ended(kCut) && n_steps_ > 4) {
            return call([&] { return engine_->cancel(ids_[kCut]); });
        }
        if (std::ranges::any_of(ids_, [&](const auto & one) { return !ended(one.first); })) { return step(); }
        gather();
        return forget();
    }

    // Whether something has failed; nothing: there was no such call.
    std::optional<bool> happened() const { return happened_; }
    const std::map<Slot, std::vector<int32_t>> & answers() const { return answers_; }
    int n_failed() const { return n_failed_; }
    bool set_aside() const { return set_aside_; }
    size_t allocated_bytes() const { return engine_->ledger().kv_allocated_bytes; }

private:
    bool ended(Slot slot) { return engine_->state(ids_[slot]) >= RequestState::kDone; }

    // Of the engine, and of it alone: what it asks for may fail, if this is the call. Otherwise it must succeed.
    template <class Call>
    bool call(Call && make) {
        const bool is_it = n_calls_++ == trouble_.call;
        if (is_it) { fail_at(trouble_.what, trouble_.k); }
        const Status status = make();
        if (is_it) {
            EXPECT_EQ(testing::n_graphs_after_cancel(), 0) << "it went on";
            happened_ = stop_failing();
        }
        EXPECT_TRUE(status.ok() || (is_it && *happened_)) << status.message();
        return true;
    }

    bool submit(Slot slot) {
        Request request = request_of(slot);
        if (slot == kFork || slot == kForkThatEvicts) { request.after = ids_[kBase]; }
        int64_t id = 0;
        call([&]() -> Status {
            PITH_ASSIGN_OR_RETURN(id, engine_->submit(std::move(request)));
            return {};
        });
        if (id != 0) { ids_[slot] = id; }
        return true;
    }

    bool step() {
        call([&] { return engine_->step(&testing::cancel_flag()).status(); });
        ++n_steps_;
        set_aside_ = set_aside_ || engine_->ledger().n_set_aside > 0;
        return true;
    }

    bool look() {
        looked_ = true;
        return call([&] {
            static_cast<void>(engine_->lane_positions(ids_[kFull], 0, 0));
            return engine_->ledger(ids_[kChunked]).status();
        });
    }

    bool forget() {
        if (ids_.empty()) { return false; }
        const auto one = ids_.begin();
        bool gone = false;
        call([&] {
            Status status = engine_->forget(one->second);
            gone = status.ok();
            return status;
        });
        if (gone) { ids_.erase(one); }
        return true;
    }

    void gather() {
        gathered_ = true;
        for (const auto & [slot, id] : ids_) {
            const RequestState state = engine_->state(id);
            if (slot == kBase) { continue; }
            if (state == RequestState::kFailed) {
                ++n_failed_;
                const ErrorCode code = engine_->status(id).code();
                EXPECT_TRUE(code == ErrorCode::kOutOfMemory || code == ErrorCode::kInternal) << engine_->status(id).message();
            } else if (slot != kCut) {
                const auto answer = engine_->answer(id);
                answers_[slot].assign(answer.begin(), answer.end());
            }
        }
    }

    Trouble trouble_;
    std::optional<Engine> engine_;
    std::map<Slot, int64_t> ids_;
    std::optional<bool> happened_;
    int n_calls_ = 0;
    std::map<Slot, std::vector<int32_t>> answers_;
    int n_steps_ = 0;
    int n_failed_ = 0;
    bool looked_ = false;
    bool gathered_ = false;
    bool set_aside_ = false;
};

const Model & tiny() {
    static const auto model = [] {
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = 2;
        return testing::tiny_model(spec);
    }();
    return *model;
}

std::optional<bool> live(const Trouble & trouble, const Life & expected) {
    Life life(tiny(), trouble);
    while (life.next()) {}
    const bool one_may_fail = life.happened().value_or(false) && trouble.what != Fails::kCancel;
    EXPECT_LE(life.n_failed(), one_may_fail ? 1 : 0);
    for (const auto & [slot, answer] : life.answers()) { EXPECT_EQ(answer, expected.answers().at(slot)) << "request " << slot; }
    EXPECT_GE(life.answers().size() + 1, expected.answers().size());
    EXPECT_EQ(life.allocated_bytes(), 0U);
    return life.happened();
}

class BatchEngineFailures : public ::testing::TestWithParam<Fails> {};

TEST_P(BatchEngineFailures, EndOneRequestAtMostAndLeaveNothingBehind) {
    Life expected(tiny(), {});
    while (expected.next()) {}
    ASSERT_EQ(expected.answers().size(), size_t{kSlots} - 2);
    ASSERT_TRUE(expected.set_aside()) << "nobody had to make room";
    int n_failures = 0;
    bool over = false;
    for (int call = 0; !over; ++call) {
        // The first, the second, and further and further apart, until the call has no more of them.
        int64_t k = 1;
        int64_t before = 0;
        for (bool failed = true; failed && !over; before = std::exchange(k, k + std::max<int64_t>(before, 1))) {
            SCOPED_TRACE("call " + std::to_string(call) + ", the " + std::to_string(k) + "th");
            const auto happened = live({call, GetParam(), k}, expected);
            over = !happened.has_value();
            failed = happened.value_or(false);
            n_failures += failed ? 1 : 0;
            ASSERT_FALSE(HasFailure());
        }
    }
    RecordProperty("failures", n_failures);
    EXPECT_GE(n_failures, GetParam() == Fails::kFiles ? 3 : 10);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchEngineFailures,
                         ::testing::Values(Fails::kNew, Fails::kPages, Fails::kBuffers, Fails::kGraphs, Fails::kFiles,
                                           Fails::kCancel));

TEST(BatchEngineFailures, AnEngineThatCannotBeMadeIsAnError) {
    const Model & model = tiny();
    int64_t k = 1;
    for (bool failed = true; failed; ++k) {
        fail_at(Fails::kNew, k);
        const auto engine = model.engine({});
        failed = stop_failing();
        EXPECT_EQ(engine.ok(), !failed);
    }
    EXPECT_GT(k, 3);
}

// A prompt goes on from another's state, reads more, and should leave its own to others: what it has read moves, and then
// cannot be mapped for those. It is its own then, and in its reservation.
TEST(BatchEngineFailures, WhatCannotBeSharedOnceItHasMovedIsReserved) {
    EngineOptions options = testing::f32_engine_options();
    options.cache_memory_bytes = uint64_t{64} << 20U;
    Request first;
    first.tokens = random_tokens(300, 384, 5);
    first.options.policy = "full";
    first.options.prefill = PrefillSchedule::kChunked;
    first.options.chunk = 20;
    first.max_tokens = 1;
    Request second = first;
    const auto more = random_tokens(100, 384, 6);
    second.tokens.insert(second.tokens.end(), more.begin(), more.end());
    second.max_tokens = 5;
    std::vector<int32_t> expected;
    int n_answered = 0;
    int64_t k = 0;
    for (bool failed = true; failed; ++k) {  // the first time nothing fails
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        ASSERT_TRUE(engine->submit(first).ok() && engine->run().ok());
        ASSERT_GT(engine->ledger().kv_idle_bytes, 0U);
        const auto id = engine->submit(second);
        ASSERT_TRUE(id.ok());
        if (k > 0) { fail_at(Fails::kPages, k); }
        for (bool goes_on = true; goes_on;) {
            const auto stepped = engine->step();
            ASSERT_TRUE(stepped.ok());
            goes_on = *stepped;
            const EngineLedger ledger = engine->ledger();
            EXPECT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes + ledger.kv_idle_bytes) << "the " << k << "th fails";
        }
        failed = k == 0 || stop_failing();
        const auto answer = engine->answer(*id);
        if (k == 0) { expected.assign(answer.begin(), answer.end()); }
        if (engine->state(*id) != RequestState::kDone) { continue; }
        EXPECT_EQ(engine->n_cached(*id), 300);
        EXPECT_EQ(std::vector<int32_t>(answer.begin(), answer.end()), expected);
        ++n_answered;
    }
    EXPECT_GT(n_answered, 4) << "nothing failed where a state was to be shared";
}

// Memory fails an answer that was set aside, as it comes back while another runs: it waits for that one.
TEST(BatchEngineFailures, AnAnswerThatCannotComeBackNowComesBackLater) {
    EngineOptions options = testing::f32_engine_options();
    options.max_sequences = 2;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    const auto submit = [&](int n, int priority, int max_tokens) {
        Request request;
        request.tokens = random_tokens(n, 384, static_cast<unsigned>(n));
        request.options.policy = "full";
        request.priority = priority;
        request.max_tokens = max_tokens;
        return *engine->submit(request);
    };
    const int64_t runs_on = submit(30, 2, 60);
    const int64_t low = submit(40, 0, 20);
    while (engine->answer(low).size() < 3) { ASSERT_TRUE(engine->step().ok()); }
    const int64_t urgent = submit(10, 1, 3);
    while (engine->state(urgent) != RequestState::kDone) { ASSERT_TRUE(engine->step().ok()); }
    ASSERT_EQ(engine->state(low), RequestState::kSetAside);
    fail_at(Fails::kPages, 1);
    ASSERT_TRUE(engine->step().ok());
    EXPECT_TRUE(stop_failing()) << "nothing was asked for";
    EXPECT_EQ(engine->state(low), RequestState::kSetAside) << engine->status(low).message();
    EXPECT_EQ(engine->state(runs_on), RequestState::kAnswering);
    ASSERT_TRUE(engine->run().ok());
    ASSERT_EQ(engine->state(low), RequestState::kDone) << engine->status(low).message();
    SessionOptions alone;
    alone.policy = "full";
    alone.type_k = alone.type_v = KvType::kF32;
    alone.n_threads = 1;
    testing::expect_answer(*engine, low, testing::answer_alone(tiny(), alone, {random_tokens(40, 384, 40)}, 20));
}

}  // namespace
}  // namespace pith::batch_engine_failure_test
