// joint_eviction_test.cpp - sequences that are evicted in the same step, with lanes on a device: what they keep is what they
// keep on the CPU, where each is evicted by itself, whatever fails meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/ggml_calls.h"
#include "device/noted_answer.h"
#include "device/on_devices.h"
#include "engine/evict/evict.h"
#include "engine/evict/plan_there.h"
#include "engine/pass/live_session.h"
#include "engine/tiny_model.h"
#include "engine/tiny_session.h"
#include "every_case.h"
#include "evidence/observe.h"
#include "pith/batch_engine.h"

namespace pith::joint_eviction_test {
namespace {

using testing::fail_allocation;
using testing::ggml_calls;
using testing::random_tokens;

struct Said : testing::NotedAnswer {
    int64_t n_evictions = 0;
    int64_t n_returned = 0;  // entries that came back
    bool operator==(const Said &) const = default;
};

// Which allocation on the device fails: the k-th of a step; below 0: none.
struct Trouble {
    int step = 0;
    int k = -1;
    int n_failed = 0;  // requests that ended
    bool came = false;
};

// Of sequences that go on together from one prompt, with n_own tokens, and so are evicted together.
std::vector<Said> say(const Model & model, const std::string & policy, int n_sequences, Trouble * trouble = nullptr,
                      int n_own = 1) {
    auto engine = model.engine(testing::exact_engine_options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    Request prompt;
    prompt.tokens = random_tokens(280, 384);
    prompt.options.policy = policy;
    if (policy != "full") { prompt.options.budget = 250; }
    prompt.options.evict_every = 8;
    prompt.keep = true;
    prompt.max_tokens = 0;
    const auto base = engine->submit(prompt);
    EXPECT_TRUE(base.ok() && engine->run().ok());
    std::vector<Said> said(static_cast<size_t>(n_sequences));
    std::vector<int64_t> ids(said.size());
    for (size_t i = 0; i < said.size(); ++i) {
        Request request;
        request.after = *base;
        request.tokens = random_tokens(n_own, 384, 100 + static_cast<unsigned>(i));
        request.max_tokens = 30 + static_cast<int>(i);
        request.choose = testing::noting(*engine, ids[i], said[i]);
        ids[i] = engine->submit(request).value();
    }
    int n_steps = 0;
    for (bool more = true; more; ++n_steps) {
        const bool fails = trouble != nullptr && n_steps == trouble->step;
        const int64_t before = ggml_calls().allocations;
        if (fails) { fail_allocation(trouble->k); }
        const auto stepped = engine->step();
        fail_allocation(-1);
        if (fails) { trouble->came = ggml_calls().allocations - before > trouble->k; }
        EXPECT_TRUE(stepped.ok()) << stepped.status().message();
        more = stepped.ok() && *stepped;
    }
    for (size_t i = 0; i < ids.size(); ++i) {
        said[i].n_evictions = engine->ledger(ids[i]).value().n_evictions;
        if (engine->state(ids[i]) == RequestState::kDone) { continue; }
        EXPECT_NE(trouble, nullptr) << engine->status(ids[i]).message();
        EXPECT_FALSE(engine->status(ids[i]).message().empty());
        if (trouble != nullptr) { ++trouble->n_failed; }
        said[i] = {};
    }
    return said;
}

class JointEviction : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = testing::nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
        const std::string path = testing::scratch_file("joint-eviction.gguf");
        ASSERT_TRUE(write_random_model(testing::tiny_spec(), path).ok());
        auto there = testing::load(path, {.name = "one_with_lanes", .kv_offload = true});
        auto here = Model::load(path);
        ASSERT_TRUE(there.ok() && here.ok());
        there_.emplace(std::move(*there));
        here_.emplace(std::move(*here));
    }
    std::optional<Model> there_, here_;
};

TEST_F(JointEviction, KeepsWhatTheCpuKeeps) {
    for (const char * policy : {"snapkv:window=8", "snapkv:window=8+ada", "snapkv:window=100", "tova", "cake", "h2o", "keydiff",
                                "laprox:window=8", "streaming", "expected+global"}) {
        SCOPED_TRACE(policy);
        const std::vector<Said> there = say(*there_, policy, 5);
        EXPECT_EQ(there, say(*here_, policy, 5));
        for (const Said & one : there) { EXPECT_GE(one.n_evictions, 3); }
    }
}

// What the ends of three prompts look for among what was evicted, while the prompts share passes.
TEST_F(JointEviction, BringsBackWhatTheCpuBringsBack) {
    const auto ask = [](const Model & model, const char * policy, bool looks_back, int repair_every = 0) {
        EngineOptions options = testing::exact_engine_options();
        options.grid = 32;
        auto engine = model.engine(options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        std::vector<Said> said(3);
        std::vector<int64_t> ids(said.size());
        for (size_t i = 0; i < said.size(); ++i) {
            Request request;
            request.tokens = random_tokens(330, 384, 5 + static_cast<unsigned>(i));
            request.options.policy = policy;
            request.options.budget = 100;
            request.options.chunk = 16;
            request.options.evict_every = 8;
            request.options.cold = KvType::kF32;
            request.options.look_back = looks_back;
            request.options.repair_every = repair_every;
            request.max_tokens = 30;
            request.choose = testing::noting(*engine, ids[i], said[i]);
            ids[i] = engine->submit(request).value();
        }
        EXPECT_TRUE(engine->run().ok());
        for (size_t i = 0; i < said.size(); ++i) {
            EXPECT_EQ(engine->state(ids[i]), RequestState::kDone) << engine->status(ids[i]).message();
            const Ledger ledger = engine->ledger(ids[i]).value();
            said[i].n_returned = ledger.returned_entries;
            EXPECT_GT(said[i].n_returned, 0);
            EXPECT_EQ(ledger.n_answer_repairs, repair_every > 0 ? 29 / repair_every : 0);
        }
        return said;
    };
    size_t i = 0;
    for (const char * policy : {"keydiff", "snapkv:window=8"}) {
        for (const bool looks_back : {false, true}) {
            if (!testing::in_turn(size_t{0}, i++, 3)) { continue; }  // either policy, with and without
            SCOPED_TRACE(policy + std::string(looks_back ? ", looking back" : ""));
            EXPECT_EQ(ask(*there_, policy, looks_back), ask(*here_, policy, looks_back));
            // What answers look for is near to being wanted alike, too often for the same to come back of rounded queries.
            ask(*there_, policy, looks_back, 8);
        }
    }
}

// Of what they share nothing is lost with the one that finds no memory.
TEST_F(JointEviction, WhoSharesAPromptGoesOnWhereTheDevicesMemoryEnds) {
    constexpr int kSequences = 3;
    constexpr int kOwn = 40;
    for (const char * policy : {"full", "snapkv:window=8+ada"}) {
        SCOPED_TRACE(policy);
        const std::vector<Said> whole = say(*there_, policy, kSequences, nullptr, kOwn);
        EXPECT_EQ(whole, say(*here_, policy, kSequences, nullptr, kOwn));
        int n_came = 0;
        int n_failed = 0;
        for (int step = 0; step < 18; step += testing::every_case() ? 1 : 3) {
            for (int k = 0;; k += 3) {
                SCOPED_TRACE("step " + std::to_string(step) + ", allocation " + std::to_string(k));
                Trouble trouble{step, k};
                const std::vector<Said> said = say(*there_, policy, kSequences, &trouble, kOwn);
                if (!trouble.came) { break; }
                ++n_came;
                n_failed += trouble.n_failed;
                EXPECT_LE(trouble.n_failed, 1) << "alone";
                for (size_t i = 0; i < said.size(); ++i) {
                    if (!said[i].tokens.empty()) { EXPECT_EQ(said[i], whole[i]); }
                }
            }
        }
        std::cout << policy << ": " << n_came << " times, " << n_failed << " requests ended\n";
        EXPECT_GT(n_came, 5);
    }
}

// At whichever buffer it fails in a step: who has not ended says what all say where nothing fails.
TEST_F(JointEviction, IsDoneAllTheSameWhereTheDevicesMemoryEnds) {
    constexpr int kSequences = 4;
    const std::string policy = "snapkv:window=8+ada";
    const std::vector<Said> whole = say(*there_, policy, kSequences);
    int n_failed = 0;
    int n_same = 0;
    int n_came = 0;
    for (int step = 0; step < 20; ++step) {
        for (int k = 0;; k += 2) {
            SCOPED_TRACE("step " + std::to_string(step) + ", allocation " + std::to_string(k));
            Trouble trouble{step, k};
            const std::vector<Said> said = say(*there_, policy, kSequences, &trouble);
            if (!trouble.came) { break; }  // the step takes no more
            ++n_came;
            n_failed += trouble.n_failed;
            EXPECT_LE(trouble.n_failed, step == 0 ? 1 : 0) << "who finds no memory for its copy of the prompt ends, alone";
            for (size_t i = 0; i < said.size(); ++i) {
                if (said[i].tokens.empty()) { continue; }
                EXPECT_EQ(said[i], whole[i]);
                ++n_same;
            }
        }
    }
    std::cout << n_came << " times: " << n_same << " answers were whole, " << n_failed << " requests ended\n";
    EXPECT_GT(n_came, 10);
    EXPECT_EQ(n_same, kSequences * n_came - n_failed);
}

// Four of five, one after the other: nothing moves until the next step, or until somebody asks what is held.
TEST_F(JointEviction, ThoseThatEndBetweenStepsMoveOnce) {
    constexpr int kSequences = 5;
    for (const bool asks : {false, true}) {
        SCOPED_TRACE(asks ? "somebody asks" : "a step comes");
        auto engine = there_->engine(testing::exact_engine_options());
        ASSERT_TRUE(engine.ok());
        std::vector<int64_t> ids;
        for (int i = 0; i < kSequences; ++i) {
            Request request;
            request.tokens = random_tokens(300, 384, static_cast<unsigned>(i));
            request.max_tokens = 100;
            ids.push_back(engine->submit(request).value());
        }
        const auto answers = [&](int64_t id) { return !engine->answer(id).empty(); };
        while (!std::ranges::all_of(ids, answers)) { ASSERT_TRUE(engine->step().value()); }
        ASSERT_TRUE(engine->step().value());
        const testing::GgmlCalls a_step = [&] {
            const auto at = ggml_calls();
            EXPECT_TRUE(engine->step().value());
            return ggml_calls() - at;
        }();
        const size_t before = engine->ledger().kv_allocated_bytes;
        auto at = ggml_calls();
        for (int i = 1; i < kSequences; ++i) { ASSERT_TRUE(engine->cancel(ids[static_cast<size_t>(i)]).ok()); }
        EXPECT_EQ((ggml_calls() - at).graphs, 0);
        const int n_layers = there_->info().n_layers;
        at = ggml_calls();
        if (asks) {
            const size_t after = engine->ledger().kv_allocated_bytes;
            EXPECT_LE(after, before / kSequences + 1);
            EXPECT_EQ((ggml_calls() - at).graphs, n_layers) << "a copy of each layer";
            at = ggml_calls();
            static_cast<void>(engine->ledger());
            EXPECT_EQ((ggml_calls() - at).graphs, 0);
        } else {
            ASSERT_TRUE(engine->step().value());
            EXPECT_LE((ggml_calls() - at).graphs, a_step.graphs + n_layers);
            EXPECT_LE(engine->ledger().kv_allocated_bytes, before / kSequences + 1);
        }
        ASSERT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->state(ids[0]), RequestState::kDone);
        const std::vector<int32_t> answer(engine->answer(ids[0]).begin(), engine->answer(ids[0]).end());

        auto alone = there_->engine(testing::exact_engine_options());
        ASSERT_TRUE(alone.ok());
        Request request;
        request.tokens = random_tokens(300, 384, 0);
        request.max_tokens = 100;
        const int64_t id = alone->submit(request).value();
        ASSERT_TRUE(alone->run().ok());
        EXPECT_TRUE(std::ranges::equal(alone->answer(id), answer));
    }
}

// Of engines that go with all that runs in them.
TEST_F(JointEviction, AnEngineThatGoesMovesNothing) {
    testing::GgmlCalls at;
    {
        auto engine = there_->engine(testing::exact_engine_options());
        ASSERT_TRUE(engine.ok());
        for (int i = 0; i < 4; ++i) {
            Request request;
            request.tokens = random_tokens(300, 384, static_cast<unsigned>(i));
            request.max_tokens = 100;
            ASSERT_TRUE(engine->submit(request).ok());
        }
        for (int i = 0; i < 12; ++i) { ASSERT_TRUE(engine->step().value()); }
        at = ggml_calls();
    }
    EXPECT_EQ((ggml_calls() - at).graphs, 0);
}

// Plans are of the policy and the pins that they were made by.
TEST_F(JointEviction, APlanOfAnotherPolicyOrOtherPinsIsDropped) {
    const auto evicted = [&](bool plans_before, bool other_policy, bool other_pins) {
        SessionOptions options;
        options.policy = "snapkv:window=8";
        options.budget = 60;
        options.evict_every = 256;
        options.type_k = options.type_v = KvType::kF32;
        auto session = there_->session(options);
        EXPECT_TRUE(session.ok());
        EXPECT_TRUE(session->prefill(random_tokens(50, 384)).ok());
        EXPECT_TRUE(session->prefill(random_tokens(50, 384, 2)).ok());
        LiveSession & live = live_session(*session);
        LiveSession * const one = &live;
        if (plans_before) {
            plan_together(std::span(&one, 1));
            EXPECT_TRUE(live.planned.has_value());
        }
        if (other_policy) { live.seq.policy = Policy::parse("snapkv:window=8+ada").value(); }
        if (other_pins) { live.options.pinned.push_back({20, 30}); }
        live.seq.begin(Sequence::Reach::kAll);
        const Status status = evict_all(live, /*is_last=*/false);
        EXPECT_TRUE(status.ok()) << status.message();
        live.seq.commit();
        return testing::lanes_of(*session);
    };
    const auto plain = evicted(false, false, false);
    EXPECT_EQ(evicted(true, false, false), plain);
    const auto of_policy = evicted(false, true, false);
    EXPECT_NE(of_policy, plain);
    EXPECT_EQ(evicted(true, true, false), of_policy);
    const auto of_pins = evicted(false, false, true);
    EXPECT_NE(of_pins, plain);
    EXPECT_EQ(evicted(true, false, true), of_pins);
}

// One question for whoever observes: lanes here are the CPU's.
TEST_F(JointEviction, LanesAreObservedWhereTheyLie) {
    for (const Model * model : {&*there_, &*here_}) {
        auto session = model->session({});
        ASSERT_TRUE(session.ok() && session->prefill(random_tokens(10, 384)).ok());
        EXPECT_EQ(is_observed_there(*live_session(*session).seq.cache, 0), model == &*there_);
    }
}

}  // namespace
}  // namespace pith::joint_eviction_test
