// batch_engine_test.cpp - many sequences in one pass give what each gives alone, inside one ceiling.
#include "pith/batch_engine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "core/likeliest_token.h"
#include "core/shape.h"
#include "engine/tiny_model.h"
#include "plan/step_plan.h"

namespace pith::batch_engine_test {
namespace {

using testing::random_tokens;
using testing::tiny_model;
using testing::tiny_spec;

#if defined(__SANITIZE_THREAD__)
constexpr int kThreads = 1;  // ThreadSanitizer does not see how OpenMP's threads wait for each other
#else
constexpr int kThreads = 2;
#endif

struct Answer {
    std::vector<int32_t> tokens;
    std::vector<std::vector<float>> logits;  // each token was chosen by
};

// The session's own way to answer.
Answer alone(const Model & model, const Request & request, const EngineOptions & engine) {
    SessionOptions options = request.options;
    options.type_k = engine.type_k;
    options.type_v = engine.type_v;
    options.n_threads = engine.n_threads;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    RunHooks hooks;
    hooks.n_question = request.n_question;
    EXPECT_TRUE(session->prefill(request.tokens, hooks).ok());
    Answer answer;
    for (int i = 0; i < request.max_tokens; ++i) {
        answer.logits.emplace_back(session->logits().begin(), session->logits().end());
        answer.tokens.push_back(likeliest_token(answer.logits.back()));
        if (i + 1 < request.max_tokens) { EXPECT_TRUE(session->append(answer.tokens.back()).ok()); }
    }
    return answer;
}

// The largest difference of two rows of logits, as a share of their range.
double difference(const std::vector<float> & a, const std::vector<float> & b) {
    const auto [low, high] = std::ranges::minmax_element(a);
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) { worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i])); }
    return worst / (*high - *low);
}

// By how much the best logit is above the second, as a share of the range.
double gap_of_best(std::vector<float> logits) {
    std::ranges::sort(logits, std::greater<>());
    return (static_cast<double>(logits[0]) - logits[1]) / (logits.front() - logits.back());
}

// Requests of unlike policies, schedules and lengths.
std::vector<Request> mixture() {
    std::vector<Request> requests;
    uint32_t seed = 1;
    const auto add = [&](const char * policy, Budget budget, int n, PrefillSchedule prefill, int n_question = 0) {
        Request & request = requests.emplace_back();
        request.tokens = random_tokens(n, 384, seed++);
        request.options.policy = policy;
        request.options.budget = budget;
        request.options.prefill = prefill;
        request.options.chunk = 24;
        request.options.evict_every = 5;
        request.n_question = n_question;
        request.max_tokens = 12 + static_cast<int>(seed % 5);
    };
    add("full", {}, 70, PrefillSchedule::kAuto);
    add("snapkv:window=8", 36, 130, PrefillSchedule::kChunked);
    add("h2o", 40, 90, PrefillSchedule::kChunked);
    add("laprox", 40, 100, PrefillSchedule::kOneShot);
    add("tova", 40, 61, PrefillSchedule::kChunked);
    add("expected", 40, 77, PrefillSchedule::kChunked);
    add("snapkv:window=8+ada", 40, 120, PrefillSchedule::kChunked, 7);
    add("keydiff", 40, 5, PrefillSchedule::kAuto);
    add("knorm", 40, 90, PrefillSchedule::kChunked);
    add("compactor", 40, 90, PrefillSchedule::kChunked);
    add("snapkv:window=8+caote", 36, 90, PrefillSchedule::kOneShot, 9);
    return requests;
}

struct EngineCase {
    KvType type;
    int n_kv_heads;
    int n_group;
    int max_rows;
    bool portable = false;  // a head size that Pith's own attention does not serve
};
void PrintTo(const EngineCase & c, std::ostream * out) {
    *out << static_cast<int>(c.type) << " K=" << c.n_kv_heads << " G=" << c.n_group << " rows=" << c.max_rows
         << (c.portable ? " portable" : "");
}

class BatchEngine : public ::testing::TestWithParam<EngineCase> {};

TEST_P(BatchEngine, GivesWhatEachSequenceGivesAlone) {
    const EngineCase & c = GetParam();
    RandomModelSpec spec = tiny_spec();
    spec.n_kv_heads = c.n_kv_heads;
    spec.n_heads = c.n_kv_heads * c.n_group;
    if (c.portable) { spec.head_dim = 40; }
    auto model = tiny_model(spec);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EngineOptions options;
    options.grid = 0;
    options.type_k = options.type_v = c.type;
    options.n_threads = kThreads;
    options.max_rows = c.max_rows;
    auto engine = model->engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();

    std::vector<Request> requests = mixture();
    std::vector<Answer> got(requests.size());
    std::vector<int64_t> ids;
    for (size_t i = 0; i < requests.size(); ++i) {
        Request request = requests[i];
        request.choose = [&got, i](std::span<const float> logits) {
            got[i].logits.emplace_back(logits.begin(), logits.end());
            return likeliest_token(logits);
        };
        auto id = engine->submit(std::move(request));
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);

    double worst = 0;
    std::vector<double> ties;  // where answers part: by how much the two best logits differ, as a share of the range
    for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(requests[i].options.policy.name());
        ASSERT_EQ(engine->state(ids[i]), RequestState::kDone) << engine->status(ids[i]).message();
        const Answer expected = alone(*model, requests[i], options);
        const auto answer = engine->answer(ids[i]);
        ASSERT_EQ(answer.size(), expected.tokens.size());
        for (size_t t = 0; t < expected.tokens.size(); ++t) {
            EXPECT_EQ(answer[t], likeliest_token(got[i].logits[t]));
            if (answer[t] != expected.tokens[t]) {  // behind a tie they go ways of their own
                ties.push_back(gap_of_best(expected.logits[t]));
                break;
            }
            worst = std::max(worst, difference(expected.logits[t], got[i].logits[t]));
        }
        const auto ledger = engine->ledger(ids[i]);
        ASSERT_TRUE(ledger.ok());
        EXPECT_EQ(ledger->n_prompt, std::ssize(requests[i].tokens));
        EXPECT_EQ(ledger->n_generated, std::ssize(answer) - 1);  // the last is not fed
    }
    std::printf("largest difference %.2e of the range; %zu of %zu answers part, behind ties\n", worst, ties.size(),
                requests.size());
    EXPECT_LE(worst, c.type == KvType::kF32 ? 1e-5 : 0.03);
    for (const double gap : ties) { EXPECT_LE(gap, 2 * worst) << "that was no tie"; }
    if (c.type == KvType::kF32) { EXPECT_TRUE(ties.empty()); }
}

// scripts/sanitize takes the first two.
std::vector<EngineCase> engine_cases() {
    std::vector<EngineCase> all = {{KvType::kF32, 2, 2, 512}, {KvType::kF32, 2, 2, 16},  {KvType::kF32, 1, 1, 7},
                                   {KvType::kF32, 1, 8, 64},  {KvType::kF16, 2, 4, 48},  {KvType::kBF16, 2, 2, 48},
                                   {KvType::kQ8_0, 2, 2, 48}, {KvType::kQ4_0, 2, 2, 48}, {KvType::kF32, 2, 2, 48, true}};
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0, KvType::kQ4_0}) {
        for (const int n_group : {3, 5, 6, 7}) { all.push_back({type, n_group % 2 + 1, n_group, 40}); }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Types, BatchEngine, ::testing::ValuesIn(engine_cases()));

// Nothing that a row goes through depends on the rows beside it: prompts of one pass, and then tokens of one pass.
TEST(BatchEngineBits, AreThoseOfEachSequenceAloneWhereWeightsAndEntriesAreF32) {
    auto model = tiny_model(tiny_spec());
    ASSERT_TRUE(model.ok()) << model.status().message();
    EngineOptions options;
    options.grid = 0;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = kThreads;
    auto engine = model->engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();

    std::vector<Request> requests(7);
    std::vector<Answer> got(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
        Request & request = requests[i];
        request.tokens = random_tokens(20 + 11 * static_cast<int>(i), 384, static_cast<unsigned>(i));
        request.options.policy = i % 2 == 0 ? "full" : "snapkv:window=8";
        if (i % 2 == 1) { request.options.budget = 30; }
        request.options.prefill = PrefillSchedule::kChunked;
        request.options.chunk = 256;
        request.options.evict_every = 5;
        request.max_tokens = 12;
        request.choose = [&got, i](std::span<const float> logits) {
            got[i].logits.emplace_back(logits.begin(), logits.end());
            return likeliest_token(logits);
        };
        ASSERT_TRUE(engine->submit(request).ok());
    }
    ASSERT_TRUE(engine->run().ok());
    for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE("sequence " + std::to_string(i));
        EXPECT_EQ(got[i].logits, alone(*model, requests[i], options).logits);
    }
}

Model & tiny() {
    static auto model = tiny_model(tiny_spec());
    return *model;
}

Request request_of(int n, const char * policy = "full", Budget budget = {}, uint32_t seed = 3) {
    Request request;
    request.tokens = random_tokens(n, 384, seed);
    request.options.policy = policy;
    request.options.budget = budget;
    request.options.chunk = 16;
    request.options.evict_every = 4;
    request.max_tokens = 8;
    return request;
}

// A prompt that others go on from; observe: what they may be evicted under.
Request kept_prompt(int n, std::vector<PolicyChoice> observe = {}) {
    Request request = request_of(n);
    request.options.prefill = observe.empty() ? PrefillSchedule::kAuto : PrefillSchedule::kOneShot;
    request.options.observe = std::move(observe);
    request.keep = true;
    request.max_tokens = 0;
    return request;
}

TEST(BatchEngineCeiling, RefusesWhatCanNeverFitAndLetsTheRestWait) {
    EngineOptions options;
    options.grid = 0;
    options.ceiling = Budget(BudgetKind::kBytes, 256 << 10);
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    const auto refused = engine->submit(request_of(5000));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), ErrorCode::kBudget);
    EXPECT_NE(refused.status().message().find("262,144"), std::string::npos) << refused.status().message();

    std::vector<int64_t> ids;
    for (int i = 0; i < 12; ++i) {
        const auto id = engine->submit(request_of(100, "snapkv:window=8", 32, static_cast<uint32_t>(i)));
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    int64_t most_waiting = 0;
    for (bool more = true; more;) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok());
        more = *stepped;
        most_waiting = std::max(most_waiting, engine->ledger().n_waiting);
        EXPECT_LE(engine->ledger().kv_reserved_bytes, size_t{256} << 10);
    }
    EXPECT_GT(most_waiting, 0) << "all fitted: the test shows nothing";
    EXPECT_LE(engine->ledger().kv_peak_bytes, size_t{256} << 10);
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
}

TEST(BatchEngineCeiling, IsInBytes) {
    EngineOptions options;
    options.grid = 0;
    options.ceiling = Budget(1024);
    const auto engine = tiny().engine(options);
    ASSERT_FALSE(engine.ok());
    EXPECT_NE(engine.status().message().find("1024"), std::string::npos);
}

TEST(BatchEnginePriority, SetsAnswersAsideAndBringsThemBackUnchanged) {
    const Request low = [] {
        Request request = request_of(90, "h2o", 40);
        request.max_tokens = 30;
        return request;
    }();
    EngineOptions options;
    options.grid = 0;
    options.type_k = options.type_v = KvType::kF32;
    options.max_sequences = 1;
    const Answer expected = alone(tiny(), low, options);
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    const auto first = engine->submit(low);
    ASSERT_TRUE(first.ok());
    while (engine->answer(*first).size() < 10) { ASSERT_TRUE(engine->step().ok()); }
    Request high = request_of(60, "full", {}, 9);
    high.priority = 1;
    const auto second = engine->submit(high);
    ASSERT_TRUE(second.ok());
    ASSERT_TRUE(engine->step().ok());
    EXPECT_EQ(engine->state(*first), RequestState::kSetAside);
    EXPECT_EQ(engine->ledger().n_set_aside, 1);
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*second), RequestState::kDone);
    ASSERT_EQ(engine->state(*first), RequestState::kDone) << engine->status(*first).message();
    EXPECT_EQ(std::vector<int32_t>(engine->answer(*first).begin(), engine->answer(*first).end()), expected.tokens);
}

// What is answered behind a kept prompt is what a session answers that read both, and the prompt's entries are held once.
TEST(BatchEngineForks, GoOnFromAKeptPromptAndShareIt) {
    for (const char * policy : {"full", "h2o", "snapkv:window=8"}) {
        SCOPED_TRACE(policy);
        const bool full = std::string(policy) == "full";
        EngineOptions options;
        options.grid = 0;
        options.type_k = options.type_v = KvType::kF32;
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        Request prefix = request_of(600, policy, full ? Budget() : Budget(64));
        prefix.keep = true;
        prefix.max_tokens = 0;
        const auto base = engine->submit(prefix);
        ASSERT_TRUE(base.ok()) << base.status().message();
        ASSERT_TRUE(engine->run().ok());
        ASSERT_EQ(engine->state(*base), RequestState::kDone) << engine->status(*base).message();
        const EngineLedger before = engine->ledger();
        EXPECT_GT(before.kv_kept_bytes, 0U);
        EXPECT_EQ(before.kv_kept_bytes, before.kv_allocated_bytes);

        std::vector<int64_t> ids;
        std::vector<std::vector<int32_t>> tails;
        for (uint32_t i = 0; i < 6; ++i) {
            Request request;
            tails.push_back(random_tokens(20 + static_cast<int>(i), 384, 50 + i));
            request.tokens = tails.back();
            request.after = *base;
            request.max_tokens = 10;
            const auto id = engine->submit(request);
            ASSERT_TRUE(id.ok()) << id.status().message();
            ids.push_back(*id);
        }
        ASSERT_TRUE(engine->step().ok());
        EXPECT_EQ(engine->ledger().n_running, 6);
        if (full) {  // no more than a few pages a lane each
            EXPECT_LT(engine->ledger().kv_allocated_bytes - before.kv_allocated_bytes, before.kv_allocated_bytes);
        }
        ASSERT_TRUE(engine->run().ok());

        for (size_t i = 0; i < ids.size(); ++i) {
            ASSERT_EQ(engine->state(ids[i]), RequestState::kDone) << engine->status(ids[i]).message();
            SessionOptions own = prefix.options;
            own.type_k = own.type_v = KvType::kF32;
            auto session = tiny().session(own);
            ASSERT_TRUE(session.ok());
            ASSERT_TRUE(session->prefill(prefix.tokens).ok());
            ASSERT_TRUE(session->prefill(tails[i]).ok());
            std::vector<int32_t> expected;
            for (int t = 0; t < 10; ++t) {
                expected.push_back(likeliest_token(session->logits()));
                ASSERT_TRUE(session->append(expected.back()).ok());
            }
            EXPECT_EQ(std::vector<int32_t>(engine->answer(ids[i]).begin(), engine->answer(ids[i]).end()), expected);
        }
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, before.kv_allocated_bytes) << "the base was changed";
        EXPECT_TRUE(engine->forget(*base).ok());
        ASSERT_TRUE(engine->step().ok());
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
        Request late = request_of(10);
        late.after = *base;
        EXPECT_NE(engine->submit(late).status().message().find("after is"), std::string::npos);
    }
}

// Read for questions that come later, a kept prompt holds what a session holds that read it for them.
TEST(BatchEngineForks, OfAPromptThatWasReadForTheirQuestions) {
    const auto questions = random_tokens(12, 384, 8);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        for (const char * policy : {"snapkv:window=4", "tova", "keydiff"}) {
            SCOPED_TRACE(policy);
            Request prefix = request_of(100, policy, 40);
            prefix.options.prefill = schedule;
            prefix.options.type_k = prefix.options.type_v = KvType::kF32;
            auto session = tiny().session(prefix.options);
            ASSERT_TRUE(session.ok());
            const auto seen = session->prefill_for_questions(prefix.tokens, questions);
            ASSERT_TRUE(seen.ok() && *seen);
            const std::vector<int32_t> kept(session->lane_positions(1, 1).begin(), session->lane_positions(1, 1).end());
            ASSERT_TRUE(session->prefill(std::span(questions).first(5)).ok());
            std::vector<int32_t> expected;
            for (int t = 0; t < 8; ++t) {
                expected.push_back(likeliest_token(session->logits()));
                ASSERT_TRUE(session->append(expected.back()).ok());
            }

            EngineOptions options;
            options.type_k = options.type_v = KvType::kF32;
            options.ceiling = Budget(BudgetKind::kBytes, 1 << 20);
            options.grid = 0;
            auto engine = tiny().engine(options);
            ASSERT_TRUE(engine.ok());
            prefix.keep = true;
            prefix.max_tokens = 0;
            prefix.questions = questions;
            const auto base = engine->submit(prefix);
            prefix.questions.clear();
            const auto blind = engine->submit(prefix);
            ASSERT_TRUE(base.ok() && blind.ok()) << base.status().message();
            ASSERT_TRUE(engine->run().ok());
            EXPECT_LE(engine->ledger().kv_peak_bytes, size_t{1} << 20U);
            const auto held = [&](int64_t id) {
                const auto lane = engine->lane_positions(id, 1, 1);
                return std::vector<int32_t>(lane.begin(), lane.end());
            };
            EXPECT_EQ(held(*base), kept);
            if (std::string(policy) != "keydiff") { EXPECT_NE(held(*blind), kept) << "the questions changed nothing"; }
            EXPECT_EQ(engine->ledger(*base)->schedule, session->ledger().schedule);

            Request behind;
            behind.tokens = {questions.begin(), questions.begin() + 5};
            behind.after = *base;
            behind.max_tokens = 8;
            const auto fork = engine->submit(behind);
            ASSERT_TRUE(fork.ok());
            ASSERT_TRUE(engine->run().ok());
            EXPECT_EQ(std::vector<int32_t>(engine->answer(*fork).begin(), engine->answer(*fork).end()), expected);
        }
    }
}

std::vector<std::vector<int32_t>> lanes_of(const Engine & engine, int64_t id, const CacheShape & shape) {
    std::vector<std::vector<int32_t>> lanes;
    for (int layer = 0; layer < shape.n_layers; ++layer) {
        for (int h = 0; h < shape.n_kv_heads; ++h) {
            const auto positions = engine.lane_positions(id, layer, h);
            lanes.emplace_back(positions.begin(), positions.end());
        }
    }
    return lanes;
}

// One prompt read in full serves many policies: each fork keeps, and answers, what a session keeps and answers that was
// evicted under its policy, with tokens of its own and without; the prompt's own lanes stay as they are.
TEST(BatchEngineForks, AreEvictedUnderPoliciesOfTheirOwn) {
    const RandomModelSpec spec = tiny_spec();
    const CacheShape shape{spec.n_layers, spec.n_kv_heads};
    struct Case {
        const char * policy;
        Budget budget;
        int n_tail;
        int evict_every;
    };
    const std::vector<Case> cases = {
        {"full", {}, 0, 0},
        {"full", {}, 9, 4},
        {"h2o", 40, 7, 0},
        {"h2o", 40, 0, 4},
        {"snapkv:window=8", 64, 12, 0},
        {"snapkv:window=8", Budget(BudgetKind::kPercent, 20), 0, 0},
        {"adakv:window=8", 64, 12, 5},
        {"laprox", 50, 3, 0},
        {"streaming", 1000, 5, 4},
        {"keydiff", 48, 0, 0},
    };
    for (const int evict_every : {0, 4, 5}) {
        SCOPED_TRACE(evict_every);
        EngineOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.grid = 0;
        auto engine = tiny().engine(options);
        ASSERT_TRUE(engine.ok());
        std::vector<PolicyChoice> policies;
        for (const Case & c : cases) { policies.emplace_back(c.policy); }
        Request prefix = kept_prompt(300, policies);
        prefix.options.evict_every = evict_every;
        const auto base = engine->submit(prefix);
        ASSERT_TRUE(base.ok()) << base.status().message();
        ASSERT_TRUE(engine->run().ok());
        const auto before = lanes_of(*engine, *base, shape);
        const size_t bytes_before = engine->ledger().kv_allocated_bytes;

        struct Asked {
            const Case * one;
            int64_t id;
            std::vector<int32_t> tail;
            std::vector<std::vector<int32_t>> lanes;  // when the first token of the answer is chosen
        };
        std::vector<Asked> asked;
        asked.reserve(cases.size());
        for (const Case & c : cases) {
            if (c.evict_every != evict_every) { continue; }
            Asked & one = asked.emplace_back(Asked{&c, 0, random_tokens(c.n_tail, 384, 70 + c.n_tail), {}});
            Request request;
            request.tokens = one.tail;
            request.after = *base;
            request.evict = Eviction{c.policy, c.budget};
            request.max_tokens = 10;
            request.choose = [&engine, &one, shape](std::span<const float> logits) {
                if (one.lanes.empty()) { one.lanes = lanes_of(*engine, one.id, shape); }
                return likeliest_token(logits);
            };
            const auto id = engine->submit(request);
            ASSERT_TRUE(id.ok()) << id.status().message();
            one.id = *id;
        }
        while (*engine->step()) { EXPECT_EQ(lanes_of(*engine, *base, shape), before); }

        for (const Asked & one : asked) {
            SCOPED_TRACE(one.one->policy);
            ASSERT_EQ(engine->state(one.id), RequestState::kDone) << engine->status(one.id).message();
            SessionOptions own = prefix.options;
            own.type_k = own.type_v = KvType::kF32;
            auto session = tiny().session(own);
            ASSERT_TRUE(session.ok() && session->prefill(prefix.tokens).ok());
            ASSERT_TRUE(session->evict(one.one->policy, one.one->budget).ok());
            if (!one.tail.empty()) { ASSERT_TRUE(session->prefill(one.tail).ok()); }
            for (int layer = 0; layer < shape.n_layers; ++layer) {
                for (int h = 0; h < shape.n_kv_heads; ++h) {
                    const auto positions = session->lane_positions(layer, h);
                    EXPECT_EQ(one.lanes[static_cast<size_t>(shape.lane(layer, h))],
                              std::vector<int32_t>(positions.begin(), positions.end()));
                }
            }
            std::vector<int32_t> expected;
            for (int t = 0; t < 10; ++t) {
                expected.push_back(likeliest_token(session->logits()));
                ASSERT_TRUE(session->append(expected.back()).ok());
            }
            EXPECT_EQ(std::vector<int32_t>(engine->answer(one.id).begin(), engine->answer(one.id).end()), expected);
        }
        EXPECT_EQ(engine->ledger().kv_allocated_bytes, bytes_before) << "the base was changed, or a fork's pages stay";
    }
}

// What was evicted can be kept, and several questions go on from it; the full prompt may go as soon as that is done.
TEST(BatchEngineForks, KeepWhatWasEvictedAndLetTheFullPromptGo) {
    EngineOptions options;
    options.type_k = options.type_v = KvType::kF32;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    Request prefix = kept_prompt(300, {"snapkv:window=8"});
    prefix.options.evict_every = 0;
    const auto base = engine->submit(prefix);
    ASSERT_TRUE(base.ok() && engine->run().ok());
    const size_t of_full = engine->ledger().kv_allocated_bytes;
    Request evicted;
    evicted.after = *base;
    evicted.evict = Eviction{"snapkv:window=8", 40};
    evicted.keep = true;
    evicted.max_tokens = 0;
    const auto kept = engine->submit(evicted);
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    ASSERT_TRUE(engine->forget(*base).ok());
    ASSERT_TRUE(engine->run().ok());
    ASSERT_EQ(engine->state(*kept), RequestState::kDone) << engine->status(*kept).message();
    ASSERT_TRUE(engine->step().ok());
    const size_t of_kept = engine->ledger().kv_allocated_bytes;
    EXPECT_LT(of_kept, of_full / 2) << "the full prompt is still held";
    EXPECT_EQ(of_kept, engine->ledger(*kept)->kv_allocated_bytes);
    EXPECT_EQ(engine->ledger(*kept)->kept_entries, 40 * engine->ledger(*kept)->n_lanes);

    std::vector<int64_t> ids;
    for (uint32_t i = 0; i < 3; ++i) {
        Request question;
        question.after = *kept;
        if (i > 0) { question.tokens = random_tokens(5, 384, i); }
        question.max_tokens = 6;
        ids.push_back(*engine->submit(question));
    }
    ASSERT_TRUE(engine->run().ok());
    SessionOptions own = prefix.options;
    own.type_k = own.type_v = KvType::kF32;
    auto session = tiny().session(own);
    ASSERT_TRUE(session.ok() && session->prefill(prefix.tokens).ok());
    ASSERT_TRUE(session->evict("snapkv:window=8", 40).ok());
    const auto start = session->snapshot();
    for (uint32_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(session->restore(*start).ok());
        if (i > 0) { ASSERT_TRUE(session->prefill(random_tokens(5, 384, i)).ok()); }
        std::vector<int32_t> expected;
        for (int t = 0; t < 6; ++t) {
            expected.push_back(likeliest_token(session->logits()));
            ASSERT_TRUE(session->append(expected.back()).ok());
        }
        EXPECT_EQ(std::vector<int32_t>(engine->answer(ids[i]).begin(), engine->answer(ids[i]).end()), expected);
    }
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, of_kept);
}

TEST(BatchEngineForks, EndAloneWhereTheirEvictionFails) {
    auto engine = tiny().engine({});
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(120, {"snapkv:window=30"}));
    ASSERT_TRUE(base.ok() && engine->run().ok());
    const auto fork = [&](const char * policy, Budget budget) {
        Request request;
        request.after = *base;
        request.evict = Eviction{policy, budget};
        request.max_tokens = 4;
        return engine->submit(request);
    };
    const auto small = fork("snapkv:window=30", 20);
    const auto unseen = fork("h2o", 40);
    const auto good = fork("snapkv:window=30", 60);
    ASSERT_TRUE(unseen.ok() && good.ok());
    EXPECT_EQ(small.status().code(), ErrorCode::kBudget);
    EXPECT_NE(small.status().message().find("protects"), std::string::npos) << small.status().message();
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->status(*unseen).code(), ErrorCode::kMissingEvidence) << engine->status(*unseen).message();
    EXPECT_EQ(engine->state(*good), RequestState::kDone) << engine->status(*good).message();
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, engine->ledger().kv_kept_bytes);

    EXPECT_NE(fork("gated", 40).status().message().find("gated"), std::string::npos);
    EXPECT_NE(fork("tova", Budget(BudgetKind::kAuto, 0)).status().message().find("auto"), std::string::npos);
    Request alone = request_of(10);
    alone.evict = Eviction{"tova", 4};
    EXPECT_NE(engine->submit(alone).status().message().find("go on from"), std::string::npos);
}

// What a fork's eviction copies is reserved: the ceiling holds, and what does not fit waits.
TEST(BatchEngineForks, ReserveWhatTheirEvictionCopies) {
    EngineOptions options;
    options.ceiling = Budget(BudgetKind::kBytes, 1 << 20);
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(700, {"h2o"}));
    ASSERT_TRUE(base.ok() && engine->run().ok());
    std::vector<int64_t> ids;
    for (uint32_t i = 0; i < 8; ++i) {
        Request request;
        request.after = *base;
        request.tokens = random_tokens(6, 384, i);
        request.evict = Eviction{"h2o", 150};
        request.max_tokens = 6;
        const auto id = engine->submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        ids.push_back(*id);
    }
    int64_t most_waiting = 0;
    for (bool more = true; more;) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok());
        more = *stepped;
        const EngineLedger ledger = engine->ledger();
        most_waiting = std::max(most_waiting, ledger.n_waiting);
        EXPECT_LE(ledger.kv_reserved_bytes, size_t{1} << 20);
        EXPECT_LE(ledger.kv_allocated_bytes, ledger.kv_reserved_bytes);
    }
    EXPECT_GT(most_waiting, 4) << "all fitted: the test shows nothing";
    EXPECT_LE(engine->ledger().kv_peak_bytes, size_t{1} << 20);
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
}

// Prompts are kept until one is refused; what it says. n_kept: how many were.
std::string said_when_files_run_out(int & n_kept, size_t cache_memory_bytes) {
    const rlimit few{40, 40};
    setrlimit(RLIMIT_NOFILE, &few);
    EngineOptions options;
    options.n_threads = 1;  // a child of fork() has no others
    options.cache_memory_bytes = cache_memory_bytes;
    auto engine = tiny().engine(options);
    if (!engine.ok()) { return engine.status().message(); }
    Request prefix = request_of(300, "full", Budget());
    prefix.keep = true;
    prefix.max_tokens = 0;
    std::vector<int64_t> ids;
    for (n_kept = 0; n_kept < 40; ++n_kept) {
        const auto id = engine->submit(prefix);
        if (!id.ok() || !engine->run().ok()) { return "submit() or run() failed"; }
        if (engine->state(*id) != RequestState::kDone) { break; }
        ids.push_back(*id);
    }
    const auto refused = engine->submit(prefix);
    if (!refused.ok() || !engine->run().ok() || engine->state(*refused) != RequestState::kFailed) { return "there is room"; }
    const std::string said = engine->status(*refused).message();
    // Who runs beside it may make room, so it waits; others are not concerned, and one that is forgotten makes room.
    const auto answering = engine->submit(request_of(30, "full", Budget()));
    const auto waiting = engine->submit(prefix);
    if (!answering.ok() || !waiting.ok() || !engine->step().ok()) { return "step() failed"; }
    if (engine->state(*waiting) != RequestState::kWaiting) { return "it does not wait: " + engine->status(*waiting).message(); }
    if (!engine->forget(ids.front()).ok() || !engine->run().ok()) { return "run() failed"; }
    if (engine->state(*answering) != RequestState::kDone) { return engine->status(*answering).message(); }
    if (engine->state(*waiting) != RequestState::kDone) { return engine->status(*waiting).message(); }
    return said;
}

TEST(BatchEngineForks, AreRefusedByNameBeforeFilesRunOut) {
    const auto say = [](size_t cache_memory_bytes) {
        int n_kept = 0;
        const std::string said = said_when_files_run_out(n_kept, cache_memory_bytes);
        std::fputs((std::to_string(n_kept) + " kept; " + said).c_str(), stderr);
        std::_Exit(0);  // the parent's files stay
    };
    for (const size_t cache_memory_bytes : {size_t{0}, size_t{1} << 20U}) {  // states that nobody uses are in nobody's way
        EXPECT_EXIT(say(cache_memory_bytes), ::testing::ExitedWithCode(0),
                    "^10 kept; .*10 are taken, of 10 that may be \\(ulimit -n is 40\\): forget some");
    }
}

// Has room for a kept prompt of 700 tokens, or for a request of 900, and not for both.
Result<Engine> engine_of_a_mebibyte() {
    EngineOptions options;
    options.grid = 0;
    options.ceiling = Budget(BudgetKind::kBytes, 1 << 20);
    return tiny().engine(options);
}

TEST(BatchEngineForks, CountABaseAsLongAsItIsRead) {
    auto engine = engine_of_a_mebibyte();
    ASSERT_TRUE(engine.ok());
    const Request prefix = kept_prompt(700);
    const auto base = engine->submit(prefix);
    ASSERT_TRUE(base.ok()) << base.status().message();
    ASSERT_TRUE(engine->run().ok());
    const size_t kept = engine->ledger().kv_kept_bytes;
    ASSERT_GT(kept, size_t{400} << 10U);

    Request large = request_of(900);  // fits alone, beside the base never
    const auto hopeless = engine->submit(large);
    ASSERT_TRUE(hopeless.ok()) << hopeless.status().message();
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*hopeless), RequestState::kFailed);
    EXPECT_EQ(engine->status(*hopeless).code(), ErrorCode::kBudget);
    EXPECT_NE(engine->status(*hopeless).message().find("kept"), std::string::npos) << engine->status(*hopeless).message();

    Request behind;
    behind.tokens = random_tokens(8, 384, 4);
    behind.after = *base;
    behind.max_tokens = 6;
    const auto fork = engine->submit(behind);
    ASSERT_TRUE(fork.ok());
    ASSERT_TRUE(engine->step().ok());
    ASSERT_TRUE(engine->forget(*base).ok());
    EXPECT_EQ(engine->status(*base).code(), ErrorCode::kNotFound);
    EXPECT_GE(engine->ledger().kv_allocated_bytes, kept) << "it is still read";
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*fork), RequestState::kDone) << engine->status(*fork).message();
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
}

// What is urgent waits for the room that is kept for them, and is not refused for it.
TEST(BatchEngineForks, FinishBeforeAnUrgentRequestThatFindsNoRoomBesideTheirPrompt) {
    auto engine = engine_of_a_mebibyte();
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(700));
    ASSERT_TRUE(engine->run().ok());
    ASSERT_EQ(engine->state(*base), RequestState::kDone);
    Request urgent = request_of(900);
    urgent.priority = 1;
    Request answer;
    answer.after = *base;
    answer.max_tokens = 6;
    std::vector<int64_t> ids;
    for (const Request & one : {answer, answer, urgent}) { ids.push_back(*engine->submit(one)); }
    ASSERT_TRUE(engine->forget(*base).ok());
    ASSERT_TRUE(engine->step().ok());
    EXPECT_EQ(engine->state(ids[0]), RequestState::kAnswering);
    EXPECT_EQ(engine->state(ids[1]), RequestState::kAnswering) << "beside the first";
    ASSERT_TRUE(engine->run().ok());
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
}

// Who came behind the prompt does not overtake the answers that begin with it.
TEST(BatchEngineForks, StandInLineWhereTheirPromptStood) {
    EngineOptions options;
    options.max_sequences = 1;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(40));
    const auto other = engine->submit(request_of(30));
    while (engine->state(*base) != RequestState::kDone) { ASSERT_TRUE(engine->step().ok()); }
    ASSERT_EQ(engine->state(*other), RequestState::kWaiting);
    Request answer;
    answer.after = *base;
    answer.max_tokens = 6;
    const auto first = engine->submit(answer);
    ASSERT_TRUE(first.ok()) << first.status().message();
    ASSERT_TRUE(engine->step().ok());
    EXPECT_EQ(engine->state(*first), RequestState::kAnswering);
    EXPECT_EQ(engine->state(*other), RequestState::kWaiting);
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*other), RequestState::kDone);
}

// The first in line fails, and what is forgotten meanwhile makes room for the next.
TEST(BatchEngineForks, FailOneByOneWhereKeptOnesTakeTheRoom) {
    auto engine = engine_of_a_mebibyte();
    ASSERT_TRUE(engine.ok());
    const auto base = engine->submit(kept_prompt(700));
    ASSERT_TRUE(engine->run().ok());
    const auto first = engine->submit(request_of(900));
    const auto second = engine->submit(request_of(900));
    ASSERT_TRUE(engine->step().ok());
    EXPECT_EQ(engine->state(*first), RequestState::kFailed);
    EXPECT_EQ(engine->state(*second), RequestState::kWaiting);
    ASSERT_TRUE(engine->forget(*base).ok());
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->state(*second), RequestState::kDone) << engine->status(*second).message();
}

// One that was read when the other came is set aside once it answers, not only when it ends.
TEST(BatchEnginePriority, LooksAgainWhenAPromptHasBeenRead) {
    EngineOptions options;
    options.grid = 0;
    options.max_sequences = 1;
    auto engine = tiny().engine(options);
    ASSERT_TRUE(engine.ok());
    Request low = request_of(120, "snapkv:window=8", 40);
    low.max_tokens = 200;
    const auto first = engine->submit(low);
    ASSERT_TRUE(engine->step().ok());
    ASSERT_EQ(engine->state(*first), RequestState::kReading);
    Request high = request_of(20);
    high.priority = 1;
    const auto second = engine->submit(high);
    for (int i = 0; i < 60 && engine->state(*second) != RequestState::kDone; ++i) { ASSERT_TRUE(engine->step().ok()); }
    EXPECT_EQ(engine->state(*second), RequestState::kDone);
    EXPECT_NE(engine->state(*first), RequestState::kDone);
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->answer(*first).size(), 200U);
}

// In chunks, and layer by layer, where nothing is complete before the last layer is.
TEST(BatchEngineReading, TellsHowMuchOfAPromptIsRead) {
    for (const PrefillSchedule schedule : {PrefillSchedule::kChunked, PrefillSchedule::kOneShot}) {
        auto engine = tiny().engine({});
        ASSERT_TRUE(engine.ok());
        Request request = request_of(120, "snapkv:window=8", 40);
        request.options.prefill = schedule;
        const auto id = engine->submit(request);
        ASSERT_TRUE(id.ok()) << id.status().message();
        std::vector<int64_t> told = {engine->n_read(*id)};
        while (engine->state(*id) <= RequestState::kReading) {
            ASSERT_TRUE(engine->step().ok());
            told.push_back(engine->n_read(*id));
        }
        EXPECT_TRUE(std::ranges::is_sorted(told));
        EXPECT_EQ(told.front(), 0);
        EXPECT_EQ(told.back(), 120);
        EXPECT_TRUE(std::ranges::any_of(told, [](int64_t n) { return n > 0 && n < 120; })) << static_cast<int>(schedule);
        ASSERT_TRUE(engine->run().ok());
        EXPECT_EQ(engine->n_read(*id), 120) << "answers are not read";
        ASSERT_TRUE(engine->forget(*id).ok());
        EXPECT_EQ(engine->n_read(*id), 0);
    }
}

TEST(BatchEngineHooks, EndAnswersAndMayCancelAndSubmit) {
    auto engine = tiny().engine({});
    ASSERT_TRUE(engine.ok());
    int64_t other = 0;
    int64_t late = 0;
    Request request = request_of(40);
    request.on_token = [&, n = 0](int32_t) mutable {
        if (++n == 2) {
            EXPECT_TRUE(engine->cancel(other).ok());
            late = *engine->submit(request_of(20));
            EXPECT_FALSE(engine->step().ok());
        }
        return n < 3;
    };
    const auto first = engine->submit(request);
    other = *engine->submit(request_of(50));
    Request throwing = request_of(30);
    throwing.on_token = [](int32_t) -> bool { throw std::runtime_error("no"); };
    const auto third = engine->submit(throwing);
    Request choosy = request_of(25);
    choosy.choose = [](std::span<const float>) -> Result<int32_t> { return {ErrorCode::kUnsupported, "nothing fits"}; };
    const auto fourth = engine->submit(choosy);
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(engine->answer(*first).size(), 3U);
    EXPECT_EQ(engine->state(other), RequestState::kCancelled);
    EXPECT_EQ(engine->state(late), RequestState::kDone);
    EXPECT_EQ(engine->state(*third), RequestState::kFailed);
    EXPECT_EQ(engine->status(*third).message(), "no");
    EXPECT_EQ(engine->state(*fourth), RequestState::kFailed);
    EXPECT_EQ(engine->status(*fourth).code(), ErrorCode::kUnsupported);
    EXPECT_EQ(engine->status(*fourth).message(), "nothing fits");
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
    EXPECT_TRUE(engine->forget(*first).ok());
    EXPECT_EQ(engine->status(*first).code(), ErrorCode::kNotFound);
}

TEST(BatchEngineHooks, WhoChoosesMayCancelItsOwnRequestAndGoOnReading) {
    auto engine = tiny().engine({});
    ASSERT_TRUE(engine.ok());
    int64_t id = 0;
    int n_asked = 0;
    Request request = request_of(40);
    request.choose = [&](std::span<const float> logits) -> Result<int32_t> {
        const std::vector<float> before(logits.begin(), logits.end());
        if (++n_asked == 2) { EXPECT_TRUE(engine->cancel(id).ok()); }
        EXPECT_TRUE(std::ranges::equal(logits, before)) << "asked " << n_asked << " times";
        return 7;
    };
    id = *engine->submit(request);
    ASSERT_TRUE(engine->run().ok());
    EXPECT_EQ(n_asked, 2);
    EXPECT_EQ(engine->state(id), RequestState::kCancelled);
    EXPECT_EQ(engine->answer(id).size(), 1U);
    EXPECT_EQ(engine->ledger().kv_allocated_bytes, 0U);
}

TEST(BatchEngineRequests, AreRefusedByName) {
    auto engine = tiny().engine({});
    ASSERT_TRUE(engine.ok());
    const auto message = [&](const Request & request) {
        const auto id = engine->submit(request);
        EXPECT_FALSE(id.ok());
        return id.status().message();
    };
    EXPECT_NE(message(request_of(0)).find("empty"), std::string::npos);
    Request request = request_of(10);
    request.max_tokens = 0;
    EXPECT_NE(message(request).find("max_tokens is 0"), std::string::npos);
    request = request_of(10);
    request.n_question = 11;
    EXPECT_NE(message(request).find("n_question is 11"), std::string::npos);
    request = request_of(10);
    request.questions = {1, 2};
    EXPECT_NE(message(request).find("questions are"), std::string::npos);
    request.keep = true;
    request.questions = {1, 1 << 20};
    EXPECT_NE(message(request).find("outside the vocabulary"), std::string::npos);
    request = request_of(10, "auto", Budget(BudgetKind::kAuto, 0));
    EXPECT_NE(message(request).find("auto"), std::string::npos);
    request = request_of(10);
    request.tokens.back() = 1 << 20;
    EXPECT_NE(message(request).find("outside the vocabulary"), std::string::npos);
}

// ---- who runs ----

TEST(StepPlan, LetsEveryoneAdvanceWithinFourSteps) {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
        const int max_rows = 1 + static_cast<int>(random() % 64);
        std::vector<StepCandidate> candidates(1 + random() % 40);
        int n_layered = 0;
        for (StepCandidate & one : candidates) {
            const auto kind = random() % 3;
            one.kind = kind == 0 ? StepCandidate::Kind::kAnswers : StepCandidate::Kind::kReadsChunks;
            if (kind == 2 && n_layered < kMaxLayered) {
                one.kind = StepCandidate::Kind::kReadsLayers;
                ++n_layered;
            }
            one.n_left = one.kind == StepCandidate::Kind::kReadsChunks ? 1 + static_cast<int>(random() % 100) : 1;
            one.priority = static_cast<int>(random() % 3);
        }
        for (int64_t step = 0; step < 40; ++step) {
            const StepPlan plan = plan_step(candidates, max_rows, step);
            int64_t n_rows = 0;
            int64_t n_answers = 0;
            for (const StepPiece & piece : plan.pieces) {
                StepCandidate & one = candidates[static_cast<size_t>(piece.candidate)];
                ASSERT_GE(piece.n, 1);
                ASSERT_LE(piece.n, one.n_left);
                ASSERT_NE(one.last_step, step) << "twice in a step";
                one.last_step = step;
                n_rows += piece.n;
                n_answers += one.kind == StepCandidate::Kind::kAnswers ? 1 : 0;
            }
            if (plan.layered >= 0) { candidates[static_cast<size_t>(plan.layered)].last_step = step; }
            const auto n_reading = std::ranges::count_if(
                candidates, [](const StepCandidate & one) { return one.kind == StepCandidate::Kind::kReadsChunks; });
            EXPECT_LE(n_rows, std::max<int64_t>(max_rows, n_answers + (n_reading + kMaxWait - 1) / kMaxWait));
            for (const StepCandidate & one : candidates) {
                ASSERT_GT(one.last_step, step - kMaxWait) << "round " << round << " step " << step;
            }
        }
    }
}

// What is left of the rows once all who must advance have one.
TEST(StepPlan, GivesTheRowsThatAreLeftToTheHighestPriority) {
    std::vector<StepCandidate> candidates(8);
    for (StepCandidate & one : candidates) { one = {StepCandidate::Kind::kReadsChunks, 100, -1, 0}; }
    candidates[5].priority = 1;
    std::vector<int64_t> n_rows(candidates.size());
    for (int64_t step = 0; step < 40; ++step) {
        for (const StepPiece & piece : plan_step(candidates, 64, step).pieces) {
            candidates[static_cast<size_t>(piece.candidate)].last_step = step;
            n_rows[static_cast<size_t>(piece.candidate)] += piece.n;
        }
        for (const StepCandidate & one : candidates) { ASSERT_GT(one.last_step, step - kMaxWait); }
    }
    EXPECT_GE(n_rows[5], 40 * 62) << "two others have a row in each step";
    for (const int64_t n : n_rows) { EXPECT_GE(n, 10); }
}

TEST(StepPlan, LetsTheHighestPriorityReadLayersUnlessOthersWouldWaitTooLong) {
    for (size_t n = 1; n <= kMaxLayered; ++n) {
        std::vector<StepCandidate> candidates(n);
        for (StepCandidate & one : candidates) { one.kind = StepCandidate::Kind::kReadsLayers; }
        candidates.back().priority = 1;
        std::vector<int> n_units(n);
        for (int64_t step = 0; step < 40; ++step) {
            const int chosen = plan_step(candidates, 16, step).layered;
            ASSERT_GE(chosen, 0);
            candidates[static_cast<size_t>(chosen)].last_step = step;
            ++n_units[static_cast<size_t>(chosen)];
            for (const StepCandidate & one : candidates) { ASSERT_GT(one.last_step, step - kMaxWait) << n << " at " << step; }
        }
        EXPECT_EQ(n_units.back(), 40 - 10 * (static_cast<int>(n) - 1));
    }
}

}  // namespace
}  // namespace pith::batch_engine_test
