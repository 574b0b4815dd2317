// batch_on_devices_test.cpp - sequences of unlike policies in one pass, with lanes in buckets: where one of them cannot go as a
// token of one graph, all go layer by layer, and a step that is cancelled in the middle takes back what it told of each.
#include <dlfcn.h>
#include <ggml-backend.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "device/noted_answer.h"
#include "device/on_devices.h"
#include "engine/tiny_model.h"
#include "pith/batch_engine.h"

namespace {

std::atomic<bool> cancel{false};
int n_until_cancelled = 0;  // graphs over devices; 0: it is not

}  // namespace

// Before ggml's own: as the graph begins that was waited for, whoever runs it is cancelled. One device runs all of it.
ggml_status ggml_backend_graph_compute_async(ggml_backend_t backend, ggml_cgraph * graph) {
    const bool is_there = ggml_backend_dev_type(ggml_backend_get_device(backend)) != GGML_BACKEND_DEVICE_TYPE_CPU;
    if (is_there && n_until_cancelled > 0 && --n_until_cancelled == 0) { cancel = true; }
    using Compute = ggml_status(ggml_backend_t, ggml_cgraph *);
    static auto * const next = reinterpret_cast<Compute *>(dlsym(RTLD_NEXT, "ggml_backend_graph_compute_async"));
    return next(backend, graph);
}

namespace pith::batch_on_devices_test {
namespace {

using testing::random_tokens;

constexpr int kAnswer = 30;

using Said = testing::NotedAnswer;

// cancelled: so is every step in which both answer, once, in the middle of its pass.
std::vector<Said> say(const Model & model, bool cancelled) {
    auto engine = model.engine(testing::exact_engine_options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<Said> said(2);
    std::vector<int64_t> ids(2);
    for (size_t i = 0; i < said.size(); ++i) {
        Request request;
        request.tokens = random_tokens(100, 384, static_cast<unsigned>(i));
        request.options.policy = i == 0 ? "h2o" : "snapkv:window=8";
        request.options.budget = 40;
        request.options.chunk = 24;
        request.options.evict_every = 8;
        request.max_tokens = kAnswer;
        request.choose = testing::noting(*engine, ids[i], said[i]);
        const auto id = engine->submit(request);
        EXPECT_TRUE(id.ok()) << id.status().message();
        ids[i] = id.ok() ? *id : 0;
    }
    int n_cancelled = 0;
    for (bool more = true; more;) {
        const bool both = std::ranges::all_of(ids, [&](int64_t id) { return engine->state(id) == RequestState::kAnswering; });
        if (cancelled && both) {
            n_until_cancelled = 3;
            EXPECT_TRUE(engine->step(&cancel).ok());
            n_cancelled += cancel.exchange(false) ? 1 : 0;
            n_until_cancelled = 0;
        }
        const auto stepped = engine->step();
        EXPECT_TRUE(stepped.ok()) << stepped.status().message();
        more = stepped.ok() && *stepped;
    }
    if (cancelled) { EXPECT_GT(n_cancelled, kAnswer / 2); }
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
    return said;
}

// Of requests i of some: as their lanes outgrow their rooms, and are evicted, all that lie beside them move.
std::vector<Said> say_at_once(const Model & model, const std::vector<size_t> & some) {
    const std::vector<std::string> policies = {"full", "snapkv:window=8+ada", "full", "streaming", "snapkv:window=8"};
    auto engine = model.engine(testing::exact_engine_options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<Said> said(some.size());
    std::vector<int64_t> ids(some.size());
    for (size_t i = 0; i < some.size(); ++i) {
        Request request;
        request.tokens = random_tokens(210 + 20 * static_cast<int>(some[i]), 384, static_cast<unsigned>(some[i]));
        request.options.policy = policies[some[i]];
        if (request.options.policy != "full") { request.options.budget = 250; }
        request.options.evict_every = 8;
        request.max_tokens = 40 + 10 * static_cast<int>(some[i]);
        request.choose = testing::noting(*engine, ids[i], said[i]);
        const auto id = engine->submit(request);
        EXPECT_TRUE(id.ok()) << id.status().message();
        ids[i] = id.ok() ? *id : 0;
    }
    for (bool more = true; more;) {
        const auto stepped = engine->step();
        EXPECT_TRUE(stepped.ok()) << stepped.status().message();
        more = stepped.ok() && *stepped;
    }
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
    return said;
}

// A model whose layers and lanes lie on a server.
class BatchOnDevices : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = testing::nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
        ASSERT_TRUE(write_random_model(testing::tiny_spec(), path_).ok());
        auto model = testing::load(path_, {.name = "one_with_lanes", .kv_offload = true});
        ASSERT_TRUE(model.ok()) << model.status().message();
        model_ = *std::move(model);
    }

    std::string path_ = testing::scratch_file("batch-on-devices.gguf");
    std::optional<Model> model_;
};

TEST_F(BatchOnDevices, SequencesWhoseLanesLieTogetherSayWhatEachSaysAlone) {
    const std::vector<Said> together = say_at_once(*model_, {0, 1, 2, 3, 4});
    for (size_t i = 0; i < together.size(); ++i) {
        SCOPED_TRACE(i);
        const Said alone = say_at_once(*model_, {i}).front();
        EXPECT_EQ(together[i].tokens, alone.tokens);
        EXPECT_EQ(together[i].lanes, alone.lanes);
        EXPECT_GT(together[i].tokens.size(), 30U);
    }
}

// Of requests i of some, each behind a prompt that all begin with: some read tokens of their own in chunks, some are evicted,
// from what they share and from what is theirs, and all end at different times.
std::vector<Said> go_on(const Model & model, const std::vector<size_t> & some) {
    auto engine = model.engine(testing::exact_engine_options());
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    Request prompt;
    prompt.tokens = random_tokens(270, 384);
    prompt.options.policy = "snapkv:window=8+ada";
    prompt.options.budget = 300;
    prompt.options.evict_every = 16;
    prompt.keep = true;
    prompt.max_tokens = 0;
    const auto base = engine->submit(prompt);
    EXPECT_TRUE(base.ok() && engine->run().ok());
    std::vector<Said> said(some.size());
    std::vector<int64_t> ids(some.size());
    for (size_t i = 0; i < some.size(); ++i) {
        Request request;
        request.after = *base;
        request.tokens = random_tokens(1 + 9 * static_cast<int>(some[i]), 384, 50 + static_cast<unsigned>(some[i]));
        request.max_tokens = 60 - 8 * static_cast<int>(some[i] % 4);
        request.choose = testing::noting(*engine, ids[i], said[i]);
        const auto id = engine->submit(request);
        EXPECT_TRUE(id.ok()) << id.status().message();
        ids[i] = id.ok() ? *id : 0;
    }
    EXPECT_TRUE(engine->run().ok());
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message(); }
    return said;
}

TEST_F(BatchOnDevices, SequencesThatShareAPromptSayWhatEachSaysAlone) {
    const auto here = Model::load(path_);
    ASSERT_TRUE(here.ok()) << here.status().message();
    const std::vector<Said> together = go_on(*model_, {0, 1, 2, 3, 4, 5, 6});
    EXPECT_EQ(together, go_on(*here, {0, 1, 2, 3, 4, 5, 6})) << "where they share pages";
    for (size_t i = 0; i < together.size(); ++i) {
        SCOPED_TRACE(i);
        EXPECT_EQ(together[i], go_on(*model_, {i}).front());
        EXPECT_GT(together[i].tokens.size(), 30U);
    }
}

// Prompts that begin alike, one after the other or at once, and what each begins with from what another has read; one of them
// is given up half-way.
std::vector<Said> begin_alike(const Model & model, bool with_states) {
    EngineOptions options = testing::exact_engine_options();
    options.grid = 16;
    options.cache_memory_bytes = with_states ? uint64_t{1} << 30U : 0;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    constexpr size_t kRequests = 6;
    std::vector<Said> said(kRequests);
    std::vector<int64_t> ids(kRequests);
    int64_t n_cached = 0;
    const std::vector<int32_t> begin = random_tokens(270, 384);
    for (size_t i = 0; i < kRequests; ++i) {
        Request request;
        request.tokens = begin;
        const auto rest = random_tokens(5 + 8 * static_cast<int>(i), 384, 70 + static_cast<unsigned>(i));
        request.tokens.insert(request.tokens.end(), rest.begin(), rest.end());
        request.options.chunk = 16;
        request.max_tokens = 70;
        if (i >= 3) {  // they share among themselves, and evict
            request.options.policy = "snapkv:window=8+ada";
            request.options.budget = 200;
            request.options.evict_every = 16;
        }
        request.choose = testing::noting(*engine, ids[i], said[i]);
        ids[i] = engine->submit(request).value();
        if (i == 4) { EXPECT_TRUE(engine->cancel(ids[0]).ok()); }
        for (int step = 0; step < 30 && i % 2 == 0; ++step) { EXPECT_TRUE(engine->step().ok()); }
    }
    EXPECT_TRUE(engine->run().ok());
    for (size_t i = 1; i < kRequests; ++i) {
        EXPECT_EQ(engine->state(ids[i]), RequestState::kDone) << engine->status(ids[i]).message();
        n_cached += engine->n_cached(ids[i]);
    }
    EXPECT_EQ(n_cached > 0, with_states);
    return said;
}

TEST_F(BatchOnDevices, PromptsThatBeginWithWhatAnotherHasReadSayWhatTheySayWithoutIt) {
    const std::vector<Said> shared = begin_alike(*model_, true);
    const std::vector<Said> apart = begin_alike(*model_, false);
    for (size_t i = 1; i < shared.size(); ++i) { EXPECT_EQ(shared[i], apart[i]) << i; }
}

constexpr int kKeptChunk = 64;

Request kept_prompt(unsigned seed) {
    Request request;
    request.tokens = random_tokens(200, 384, seed);
    request.options.chunk = kKeptChunk;
    request.keep = true;
    request.max_tokens = 0;
    return request;
}

TEST_F(BatchOnDevices, OfAPromptThatIsCancelledBetweenStepsNothingStaysToComputeIn) {
    auto engine = model_->engine(testing::exact_engine_options());
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    const auto first = engine->submit(kept_prompt(0));
    const auto second = engine->submit(kept_prompt(1));
    ASSERT_TRUE(first.ok() && second.ok() && engine->step().ok());
    ASSERT_GT(engine->ledger().device_graph_bytes, 0U);
    ASSERT_TRUE(engine->cancel(*first).ok());
    EXPECT_GT(engine->ledger().device_graph_bytes, 0U) << "the other one still reads";
    ASSERT_TRUE(engine->cancel(*second).ok());
    EXPECT_EQ(engine->ledger().device_graph_bytes, 0U);
}

TEST_F(BatchOnDevices, OfAPromptThatIsKeptNothingStaysToComputeIn) {
    auto engine = model_->engine(testing::exact_engine_options());
    ASSERT_TRUE(engine.ok()) << engine.status().message();
    for (unsigned i = 0; i < 2; ++i) { ASSERT_TRUE(engine->submit(kept_prompt(i)).ok()); }
    EXPECT_EQ(engine->ledger().device_graph_bytes, 0U);
    size_t most = 0;
    for (bool more = true; more;) {
        const auto stepped = engine->step();
        ASSERT_TRUE(stepped.ok()) << stepped.status().message();
        more = *stepped;
        most = std::max(most, engine->ledger().device_graph_bytes);
    }
    EXPECT_GE(most, sizeof(float) * kKeptChunk * static_cast<size_t>(model_->info().n_embd)) << "hidden states of a chunk";
    EXPECT_EQ(engine->ledger().device_graph_bytes, 0U);
}

TEST_F(BatchOnDevices, ACancelledPassOverUnlikePoliciesIsTakenBackWhole) {
    EXPECT_TRUE(say(*model_, true) == say(*model_, false));
}

}  // namespace
}  // namespace pith::batch_on_devices_test
