// device_calls_test.cpp - how often a device is asked for something: for each token, and for each layer and chunk of a prompt.
// A GPU waits as often as it is asked, so these numbers may fall, and never rise. Keys and values are there, too (kv_offload).
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "device/ggml_calls.h"
#include "device/on_devices.h"
#include "engine/pass/live_session.h"
#include "engine/settle/memory.h"
#include "engine/tiny_model.h"
#include "engine/tiny_session.h"
#include "pith/batch_engine.h"

namespace pith::device_calls_test {
namespace {

using testing::ggml_calls;
using testing::GgmlCalls;
using testing::nothing_to_test;
using testing::random_tokens;

constexpr int kFewLayers = 2;
constexpr int kManyLayers = 6;
constexpr int kLayersOfAModel = 32;  // what is printed

// What does not depend on the number of layers, and what every layer adds.
struct PerLayer {
    GgmlCalls few, many;

    int64_t of_layer(int64_t GgmlCalls::*count) const { return (many.*count - few.*count) / (kManyLayers - kFewLayers); }
    int64_t of(int64_t GgmlCalls::*count, int n_layers) const { return few.*count + (n_layers - kFewLayers) * of_layer(count); }
    GgmlCalls at(int n_layers) const {
        GgmlCalls all;
        for (const auto count :
             {&GgmlCalls::graphs, &GgmlCalls::splits, &GgmlCalls::copies, &GgmlCalls::uploads, &GgmlCalls::downloads,
              &GgmlCalls::synchronisations, &GgmlCalls::allocations, &GgmlCalls::bytes_up, &GgmlCalls::bytes_down,
              &GgmlCalls::operations, &GgmlCalls::attentions, &GgmlCalls::row_writes}) {
            all.*count = of(count, n_layers);
        }
        return all;
    }
};

class DeviceCalls : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    }
    // Llama 3.1's, with factors of frequencies.
    static Result<Model> load(int n_layers) {
        RandomModelSpec spec = testing::tiny_spec();
        spec.n_layers = n_layers;
        spec.llama3_freqs = true;
        const std::string path = testing::scratch_file("device-calls.gguf");
        PITH_RETURN_IF_ERROR(write_random_model(spec, path));
        return testing::load(path, {.name = "one_with_lanes", .kv_offload = true});
    }
    template <class Measure>
    static PerLayer per_layer(Measure measure) {
        PerLayer both;
        for (const bool many : {false, true}) {
            const auto model = load(many ? kManyLayers : kFewLayers);
            EXPECT_TRUE(model.ok()) << model.status().message();
            if (model.ok()) { (many ? both.many : both.few) = measure(*model); }
        }
        std::cout << "at " << kLayersOfAModel << " layers: " << both.at(kLayersOfAModel).text() << "\n";
        return both;
    }
    static constexpr int kVocab = 384;  // tiny_spec()'s
    // Of prompts one behind the other, the device keeps what this machine keeps.
    static void expect_kept_as_here(int n_layers, PrefillSchedule schedule, int chunk,
                                    const std::vector<std::vector<int32_t>> & prompts) {
        const auto there = load(n_layers);
        ASSERT_TRUE(there.ok()) << there.status().message();
        const auto here = Model::load(testing::scratch_file("device-calls.gguf"));
        ASSERT_TRUE(here.ok()) << here.status().message();
        for (const char * policy : {"snapkv:window=8+ada", "h2o", "expected+global", "full"}) {
            SCOPED_TRACE(policy);
            std::vector<testing::Lanes> kept;
            for (const Model * model : {&*there, &*here}) {
                SessionOptions options = testing::tiny_options(policy, std::string(policy) == "full" ? 0 : 40, schedule, chunk);
                options.type_k = options.type_v = KvType::kF32;
                auto session = model->session(options);
                ASSERT_TRUE(session.ok());
                for (const auto & prompt : prompts) { ASSERT_TRUE(session->prefill(prompt).ok()); }
                kept.push_back(testing::lanes_of(*session));
            }
            EXPECT_EQ(kept[0], kept[1]);
        }
    }
};

// Of a token of each of n_sequences, once the graph stands, with ragged lanes that all fit their rooms, of which none is
// evicted and none goes.
GgmlCalls of_token(const Model & model, int n_sequences, const std::string & policy) {
    constexpr int kTokens = 4;
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    std::vector<int64_t> ids;
    for (int i = 0; i < n_sequences; ++i) {
        Request request;
        request.tokens = random_tokens(100, model.info().n_vocab, static_cast<unsigned>(i));
        request.options.policy = policy;
        if (policy != "full") { request.options.budget = 40; }
        request.options.evict_every = 256;
        request.max_tokens = 120;
        const auto id = engine->submit(request);
        EXPECT_TRUE(id.ok()) << id.status().message();
        if (id.ok()) { ids.push_back(*id); }
    }
    const auto n_answered = [&](int64_t id) { return static_cast<int>(engine->answer(id).size()); };
    GgmlCalls before;
    for (int n_steps = -1; n_steps < kTokens;) {
        const auto stepped = engine->step();
        EXPECT_TRUE(stepped.ok() && *stepped);
        if (!stepped.ok() || !*stepped) { return {}; }
        const bool all_answer = std::ranges::all_of(ids, [&](int64_t id) { return n_answered(id) >= 3; });
        if (all_answer && ++n_steps == 0) { before = ggml_calls(); }
    }
    for (const int64_t id : ids) { EXPECT_EQ(engine->state(id), RequestState::kAnswering); }
    return (ggml_calls() - before) / kTokens;
}

// Of the step in which n_sequences that go on together from one prompt are all evicted, without a step in which none is.
GgmlCalls of_eviction(const Model & model, int n_sequences, const std::string & policy) {
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    Request request;
    request.tokens = random_tokens(100, model.info().n_vocab);
    request.options.policy = policy;
    request.options.budget = 40;
    request.options.evict_every = 16;
    request.keep = true;
    request.max_tokens = 0;
    const auto base = engine->submit(request);
    EXPECT_TRUE(base.ok() && engine->run().ok());
    std::vector<int64_t> ids;
    for (int i = 0; i < n_sequences; ++i) {
        Request next;
        next.tokens = {1 + i};
        next.after = *base;
        next.max_tokens = 64;
        ids.push_back(engine->submit(next).value());
    }
    const auto n_evictions = [&] {
        int64_t n = 0;
        for (const int64_t id : ids) { n += engine->ledger(id).value().n_evictions; }
        return n;
    };
    GgmlCalls plain;
    for (int64_t before = n_evictions(), n_steps = 0; n_steps < 60; ++n_steps) {
        const GgmlCalls at = ggml_calls();
        const auto stepped = engine->step();
        EXPECT_TRUE(stepped.ok() && *stepped);
        const int64_t after = n_evictions();
        if (after == before + n_sequences && plain.graphs > 0) { return ggml_calls() - at - plain; }
        EXPECT_EQ(after, before);
        before = after;
        plain = ggml_calls() - at;
    }
    ADD_FAILURE() << "nothing was evicted";
    return {};
}

// Of a prompt of n tokens that is read layer by layer, or as it is said.
GgmlCalls of_prompt(const Model & model, const std::string & policy, int n, int chunk,
                    PrefillSchedule prefill = PrefillSchedule::kOneShot) {
    SessionOptions options;
    options.n_threads = 1;
    options.chunk = chunk;
    options.policy = policy;
    if (policy != "full") { options.budget = 40; }
    options.prefill = prefill;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    const GgmlCalls before = ggml_calls();
    const Status read = session->prefill(random_tokens(n, model.info().n_vocab));
    EXPECT_TRUE(read.ok()) << read.message();
    return ggml_calls() - before;
}

// Of a token of each of n_sequences that go on together from one prompt of 900 tokens, and what their keys and values take
// then.
struct OfForks {
    GgmlCalls calls;
    size_t kv_bytes = 0;  // of all, and of whom they go on from
    size_t of_base = 0;
};
OfForks of_forks(const Model & model, int n_sequences) {
    constexpr int kTokens = 4;
    EngineOptions options;
    options.grid = 0;
    options.n_threads = 1;
    auto engine = model.engine(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    Request request;
    request.tokens = random_tokens(900, model.info().n_vocab);
    request.options.policy = "full";
    request.keep = true;
    request.max_tokens = 0;
    const auto base = engine->submit(request);
    EXPECT_TRUE(base.ok() && engine->run().ok());
    OfForks of;
    of.of_base = engine->ledger().kv_allocated_bytes;
    for (int i = 0; i < n_sequences; ++i) {
        Request next;
        next.tokens = {1 + i};
        next.after = *base;
        next.max_tokens = 30;
        EXPECT_TRUE(engine->submit(next).ok());
    }
    for (int i = 0; i < 3; ++i) { EXPECT_TRUE(engine->step().ok()); }
    const GgmlCalls before = ggml_calls();
    for (int i = 0; i < kTokens; ++i) { EXPECT_TRUE(engine->step().ok()); }
    of.calls = (ggml_calls() - before) / kTokens;
    of.kv_bytes = engine->ledger().kv_allocated_bytes;
    return of;
}

// What may be asked for at most: what was seen when it was last lowered.
struct Limits {
    int64_t splits, crossings, synchronisations, allocations;
};
void expect_at_most(const Limits & limits, const GgmlCalls & calls) {
    EXPECT_LE(calls.splits, limits.splits);
    EXPECT_LE(calls.crossings(), limits.crossings);
    EXPECT_LE(calls.synchronisations, limits.synchronisations);
    EXPECT_LE(calls.allocations, limits.allocations);
    EXPECT_GT(calls.graphs, 0) << "nothing was counted";
    EXPECT_GT(calls.crossings(), 0) << "nothing was counted";
}

TEST_F(DeviceCalls, OfATokenCanOnlyFall) {
    struct Case {
        int n_sequences;
        std::string policy;
    };
    const std::string ragged = "snapkv:window=8+ada";
    for (const Case & one : {Case{1, "full"}, Case{1, ragged}, Case{4, "full"}, Case{16, "full"}, Case{16, ragged}}) {
        SCOPED_TRACE(one.policy + ", sequences: " + std::to_string(one.n_sequences));
        const PerLayer calls = per_layer([&](const Model & model) { return of_token(model, one.n_sequences, one.policy); });
        expect_at_most({1, 2, 1, 0}, calls.at(kLayersOfAModel));
        // However many sequences there are, keys and values are written once for all of a layer.
        EXPECT_EQ(calls.at(kLayersOfAModel).row_writes, 2 * kLayersOfAModel);
        // Attended to, too, where all have the same room, but for lanes of a sequence that are as long as each other beside
        // some that are not: they are heads under one mask.
        EXPECT_LE(calls.at(kLayersOfAModel).attentions, (one.policy == "full" ? 1 : 4) * kLayersOfAModel);
        if (one.policy == "full") { EXPECT_LE(calls.at(kLayersOfAModel).operations, 675); }
    }
}

// They attend to one lane, in which the prompt lies once, and are asked for no more than one sequence is.
TEST_F(DeviceCalls, SequencesOfOnePromptHoldItOnce) {
    for (const int n_sequences : {1, 4, 16}) {
        SCOPED_TRACE("sequences: " + std::to_string(n_sequences));
        OfForks of;
        const PerLayer calls = per_layer([&](const Model & model) {
            of = of_forks(model, n_sequences);
            return of.calls;
        });
        expect_at_most({1, 2, 1, 0}, calls.at(kLayersOfAModel));
        EXPECT_EQ(calls.at(kLayersOfAModel).row_writes, 2 * kLayersOfAModel);
        EXPECT_EQ(calls.at(kLayersOfAModel).attentions, kLayersOfAModel);
        EXPECT_LE(calls.at(kLayersOfAModel).operations, 675);
        const double times = static_cast<double>(of.kv_bytes) / static_cast<double>(of.of_base);
        std::cout << n_sequences << " sequences of a prompt of 900 tokens hold " << times << " times what it takes\n";
        EXPECT_LE(times, n_sequences == 16 ? 2.0 : 1.25);
    }
}

// What is observed is a graph a layer, and what stays is copied by another, however many sequences there are.
TEST_F(DeviceCalls, OfAnEvictionCanOnlyFall) {
    for (const int n_sequences : {1, 4, 16}) {
        for (const char * policy : {"snapkv:window=8", "snapkv:window=8+ada"}) {
            SCOPED_TRACE(std::string(policy) + ", sequences: " + std::to_string(n_sequences));
            const PerLayer calls = per_layer([&](const Model & model) { return of_eviction(model, n_sequences, policy); });
            const GgmlCalls all = calls.at(kLayersOfAModel);
            // Of the waits one for each sequence is not for the device: this machine's threads choose.
            expect_at_most({2 * 32, 3 * 32, 2 * 32 + 2 + n_sequences, 2 * 32 + 2}, all);
            EXPECT_EQ(all.downloads, 32) << "what was observed of a layer";
            // One more where they begin with the same entries, which lie once: a line of the masks hides the others' ends.
            EXPECT_LE(all.operations, (n_sequences == 1 ? 8 : 9) * 32);
        }
    }
}

// Sums of what every query pays take two graphs a layer, and the head is one more.
TEST_F(DeviceCalls, OfATokenWhoseAttentionIsSummedCanOnlyFall) {
    const PerLayer calls = per_layer([&](const Model & model) { return of_token(model, 1, "h2o"); });
    expect_at_most({2 * 32 + 1, 4 * 32 + 3, 2 * 32 + 1, 0}, calls.at(kLayersOfAModel));
}

// The first chunk of a layer, and what evicts, is not counted: chunks that come beside it.
TEST_F(DeviceCalls, OfALayerAndChunkCanOnlyFall) {
    const auto model = load(kManyLayers);
    ASSERT_TRUE(model.ok()) << model.status().message();
    constexpr int kChunk = 32;
    constexpr int kChunks = 12;  // lanes outgrow a step of 256
    for (const char * policy : {"full", "snapkv:window=8"}) {
        SCOPED_TRACE(policy);
        const auto calls = [&](int n_chunks) { return of_prompt(*model, policy, n_chunks * kChunk, kChunk); };
        const GgmlCalls more = calls(2 * kChunks) - calls(kChunks);
        const GgmlCalls each = more / (kChunks * kManyLayers);
        std::cout << policy << ": " << each.text() << "\n";
        expect_at_most({1, 1, 1, 0}, each);
        EXPECT_EQ(more.downloads, 0) << "hidden states stay there";
        const int64_t states = int64_t{kChunk} * model->info().n_embd * sizeof(float);
        EXPECT_LT(more.bytes_up, kChunks * (states + kManyLayers * states / 2)) << "the first layer's alone go there";
    }
}

// The same of a prompt that goes through all layers chunk by chunk.
TEST_F(DeviceCalls, OfALayerAndChunkOfAPromptInChunksCanOnlyFall) {
    constexpr int kChunk = 32;
    constexpr int kChunks = 12;
    for (const char * policy : {"full", "snapkv:window=8"}) {
        SCOPED_TRACE(policy);
        const PerLayer calls = per_layer([&](const Model & model) {
            const auto of = [&](int n_chunks) {
                return of_prompt(model, policy, n_chunks * kChunk, kChunk, PrefillSchedule::kChunked);
            };
            return of(2 * kChunks) - of(kChunks);
        });
        const auto each = [&](int64_t GgmlCalls::*count) { return calls.of_layer(count) / kChunks; };
        const bool evicts = std::string(policy) != "full";
        std::cout << policy << ": " << each(&GgmlCalls::splits) << " splits, " << each(&GgmlCalls::copies) << " copies, "
                  << each(&GgmlCalls::uploads) << " uploads, " << each(&GgmlCalls::downloads) << " downloads, "
                  << each(&GgmlCalls::synchronisations) << " synchronisations, " << each(&GgmlCalls::allocations)
                  << " allocations\n";
        EXPECT_LE(each(&GgmlCalls::splits), evicts ? 3 : 1) << "what evicts observes and copies, too";
        EXPECT_LE(each(&GgmlCalls::copies) + each(&GgmlCalls::uploads), evicts ? 3 : 1);
        EXPECT_LE(each(&GgmlCalls::downloads), evicts ? 2 : 0) << "queries, and what was observed; no hidden states";
        EXPECT_LE(each(&GgmlCalls::synchronisations), evicts ? 3 : 1);
        EXPECT_LE(each(&GgmlCalls::allocations), evicts ? 2 : 0);
        EXPECT_GT(each(&GgmlCalls::splits), 0) << "nothing was counted";
    }
}

// `--budget auto` leaves room for the chunks that prompts are read in there.
TEST_F(DeviceCalls, TheBudgetThatMemoryAllowsCountsLongChunks) {
    const auto model = load(kFewLayers);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto budget = [&](int chunk) {
        SessionOptions options;
        options.chunk = chunk;
        auto session = model->session(options);
        EXPECT_TRUE(session.ok());
        const auto bytes = memory_budget(live_session(*session), 0);
        EXPECT_TRUE(bytes.ok()) << bytes.status().message();
        return bytes.ok() ? bytes->value : 0.0;
    };
    testing::tell_free_memory(256 << 20);
    EXPECT_EQ(budget(kDefaultChunk), budget(2048));
    EXPECT_LT(budget(kDefaultChunk), budget(kDefaultChunk - 1));
    // Where these do not fit, prompts go in shorter ones.
    auto session = model->session({});
    ASSERT_TRUE(session.ok());
    const LiveSession & live = live_session(*session);
    testing::tell_free_memory(static_cast<int64_t>((chunk_bytes(live, 512) + chunk_bytes(live, 2048)) / 2));
    EXPECT_GE(budget(kDefaultChunk), 1);
    EXPECT_GE(budget(kDefaultChunk - 1), budget(kDefaultChunk));
    testing::tell_free_memory(-1);
}

TEST_F(DeviceCalls, ChunksThatAreLeftToUsAreLong) {
    const PerLayer calls = per_layer([&](const Model & model) { return of_prompt(model, "full", 5000, kDefaultChunk); });
    EXPECT_EQ(calls.of_layer(&GgmlCalls::graphs), 3) << "of 2,048 tokens";
    EXPECT_EQ(calls.of_layer(&GgmlCalls::allocations), 1) << "its lanes";
    const PerLayer asked = per_layer([&](const Model & model) { return of_prompt(model, "full", 5000, 1000); });
    EXPECT_EQ(asked.of_layer(&GgmlCalls::graphs), 5);
}

// They come back with every layer and chunk, and chunks are as on this machine; what is kept stays the same.
TEST_F(DeviceCalls, ADeviceWithoutMemoryForHiddenStatesSendsThemBack) {
    constexpr int kTokens = 1200;  // three chunks
    const auto model = load(kManyLayers);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto prompt = random_tokens(kTokens, model->info().n_vocab);
    std::vector<GgmlCalls> calls;
    std::vector<testing::Lanes> kept;
    for (const int64_t free : {int64_t{-1}, int64_t{1} << 20U}) {
        testing::tell_free_memory(free);
        SessionOptions options;
        options.n_threads = 1;
        options.policy = "snapkv:window=8";
        options.budget = 40;
        options.prefill = PrefillSchedule::kOneShot;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok());
        const GgmlCalls before = ggml_calls();
        const Status read = session->prefill(prompt);
        testing::tell_free_memory(-1);
        ASSERT_TRUE(read.ok()) << read.message();
        calls.push_back(ggml_calls() - before);
        kept.push_back(testing::lanes_of(*session));
    }
    EXPECT_EQ(kept[0], kept[1]);
    const int64_t states = int64_t{kTokens} * model->info().n_embd * sizeof(float);
    EXPECT_LT(calls[0].bytes_down, states);
    EXPECT_GT(calls[1].bytes_down, (kManyLayers - 1) * states);
    EXPECT_EQ(calls[1].graphs - calls[0].graphs, 2 * kManyLayers) << "three chunks a layer in place of one";
}

// What is kept does not depend on how long chunks are, nor on where hidden states lie.
TEST_F(DeviceCalls, LongChunksKeepWhatShortOnesKeep) {
    expect_kept_as_here(kFewLayers, PrefillSchedule::kOneShot, kDefaultChunk, {random_tokens(2500, kVocab)});
}

// At whichever buffer it fails: that of hidden states is one of them.
TEST_F(DeviceCalls, APromptWhoseDeviceFailsLeavesNothing) {
    const auto model = load(kFewLayers);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto prompt = random_tokens(300, model->info().n_vocab);
    for (const PrefillSchedule prefill : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        SCOPED_TRACE(prefill == PrefillSchedule::kOneShot ? "in one shot" : "in chunks");
        SessionOptions options;
        options.n_threads = 1;
        options.policy = "snapkv:window=8";
        options.budget = 40;
        options.chunk = prefill == PrefillSchedule::kOneShot ? kDefaultChunk : 128;
        options.prefill = prefill;
        auto whole = model->session(options);
        ASSERT_TRUE(whole.ok() && whole->prefill(prompt).ok());
        auto session = model->session(options);
        ASSERT_TRUE(session.ok());
        int n_failed = 0;
        for (bool failed = true; failed;) {
            testing::fail_allocation(n_failed);
            const Status status = session->prefill(prompt);
            testing::fail_allocation(-1);
            failed = !status.ok();
            ASSERT_TRUE(status.ok() || status.code() == ErrorCode::kIo || status.code() == ErrorCode::kOutOfMemory)
                << status.message();
            if (!failed) { break; }
            ++n_failed;
            EXPECT_EQ(session->n_tokens(), 0);
            for (const DeviceUse & use : session->ledger().devices) { EXPECT_EQ(use.graph_bytes, 0U) << n_failed; }
        }
        EXPECT_GE(n_failed, 4) << "lanes, hidden states, what goes in and out, and what is in between";
        EXPECT_TRUE(std::ranges::equal(session->logits(), whole->logits()));
    }
}

// Hidden states that stay there are those that would have come back.
TEST_F(DeviceCalls, APromptInChunksKeepsWhatItKeepsHere) {
    expect_kept_as_here(kManyLayers, PrefillSchedule::kChunked, 200,
                        {random_tokens(700, kVocab), random_tokens(90, kVocab, 3)});
}

}  // namespace
}  // namespace pith::device_calls_test
