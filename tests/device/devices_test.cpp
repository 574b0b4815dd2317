// devices_test.cpp - layers on ggml's devices: what they compute is what the CPU computes, and what is kept is the same. Over
// ggml-rpc-servers of this machine, whose memory is nobody else's: skipped where there is none. Where ctest says so (-L
// vulkan), over Vulkan, too, and over both.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "core/likeliest_token.h"
#include "device/amx.h"
#include "device/noted_answer.h"
#include "device/on_devices.h"
#include "device/placement.h"
#include "device/rpc_process.h"
#include "engine/gated_model.h"
#include "engine/layer_probe.h"
#include "engine/parts/model_parts.h"
#include "engine/tiny_model.h"
#include "every_case.h"
#include "model/architecture_files.h"
#include "model/architectures.h"
#include "model/llama_logits.h"
#include "model/mul_mat.h"
#include "model/random_lora.h"

namespace pith::devices_test {
namespace {

using testing::compare_logits;
using testing::load;
using testing::nothing_to_test;
using testing::on_a_device;
using testing::options_of;
using testing::random_tokens;
using testing::RpcProcess;
using testing::scratch_file;
using testing::tiny_spec;
using testing::Where;

constexpr int kPrompt = 96;
constexpr int kDecoded = 8;
constexpr double kParity = 1e-4;         // of the logits' range
constexpr double kOtherProducts = 5e-2;  // where one side rounds what it multiplies by to bytes

TEST(Placement, TheLastLayersLeaveTheCpuFirstAndTheOutputIsOneMore) {
    using Numbers = std::vector<int>;
    EXPECT_EQ(divide_layers(4, 5, {1}), (Numbers{0, 0, 0, 0, 0}));
    EXPECT_EQ(divide_layers(4, 2, {1}), (Numbers{-1, -1, -1, 0, 0}));
    EXPECT_EQ(divide_layers(4, 0, {1}), (Numbers{-1, -1, -1, -1, -1}));
    EXPECT_EQ(divide_layers(4, 99, {1, 1}), (Numbers{0, 0, 0, 1, 1}));
    EXPECT_EQ(divide_layers(3, 4, {3, 1}), (Numbers{0, 0, 0, 1}));
    EXPECT_EQ(divide_layers(3, 4, {0, 2, 0}), (Numbers{1, 1, 1, 1}));
}

TEST(Placement, OptionsAreReadFromTextsAndRefusedByName) {
    const auto read = parse_devices("a:1, b:2", "RPC0,CUDA0", "3,1");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->rpc_servers, (std::vector<std::string>{"a:1", "b:2"}));
    EXPECT_EQ(read->names, (std::vector<std::string>{"RPC0", "CUDA0"}));
    EXPECT_EQ(read->split, (std::vector<float>{3, 1}));
    EXPECT_TRUE(read->any());
    for (const char * wrong : {"a", "a:", ":5", "a:0", "a:65536", "a:5x", "a:1,,b:2"}) {
        SCOPED_TRACE(wrong);
        EXPECT_EQ(parse_devices(wrong, "", "").status().code(), ErrorCode::kInvalidArgument);
    }
    EXPECT_EQ(parse_devices("", "", "1,x").status().code(), ErrorCode::kInvalidArgument);
    DeviceOptions none;
    EXPECT_FALSE(none.any());
    none.rpc_servers = {"a:1"};
    EXPECT_TRUE(none.any());
    none.n_layers = 0;
    EXPECT_FALSE(none.any());
    EXPECT_FALSE((DeviceOptions{.names = {"none"}, .n_layers = 5}).any());
}

struct Outcome {
    std::vector<float> logits;    // [position][n_vocab]
    std::vector<int32_t> answer;  // greedy
    std::vector<int64_t> kept;    // lane · 2³² + position
};

SessionOptions session_options(const std::string & policy, KvType type = KvType::kF32) {
    SessionOptions options;
    options.policy = policy;
    if (policy != "full") { options.budget = 40; }
    options.type_k = options.type_v = type;
    options.n_threads = 1;
    options.chunk = 24;
    options.evict_every = 4;
    return options;
}

// ggmls_evidence: what policies ask for is computed by ggml's operations on the CPU, too.
Outcome run(const Model & model, const SessionOptions & options, const std::vector<int32_t> & prompt,
            bool ggmls_evidence = false) {
    Outcome out;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) { return out; }
    if (ggmls_evidence) { LayerProbe(*session).runner().set_custom_operations(false); }
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { out.logits.insert(out.logits.end(), row.begin(), row.end()); };
    const Status status = session->prefill(prompt, hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    for (int i = 0; status.ok() && i < kDecoded; ++i) {
        const auto token = session->decode();
        EXPECT_TRUE(token.ok()) << token.status().message();
        if (!token.ok()) { return out; }
        out.answer.push_back(*token);
        out.logits.insert(out.logits.end(), session->logits().begin(), session->logits().end());
    }
    for (int l = 0; l < session->n_layers(); ++l) {
        for (int h = 0; h < session->n_kv_heads(); ++h) {
            const auto lane = session->lane_positions(l, h);
            const int64_t number = static_cast<int64_t>(l) * session->n_kv_heads() + h;
            for (const int32_t position : lane) { out.kept.push_back((number << 32U) + position); }
        }
    }
    return out;
}

void expect_same(const Outcome & got, const Outcome & expected, int n_vocab, double most = kParity) {
    ASSERT_EQ(got.logits.size(), expected.logits.size());
    EXPECT_LE(compare_logits(got.logits, expected.logits, n_vocab).max_relative, most);
    EXPECT_EQ(got.answer, expected.answer);
    EXPECT_EQ(got.kept, expected.kept);
}

class OnDevices : public ::testing::TestWithParam<Where> {
protected:
    void SetUp() override {
        if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    }
    // The same model on the CPU alone and on devices.
    void load_both(const RandomModelSpec & spec) {
        ASSERT_TRUE(write_random_model(spec, path_).ok());
        auto cpu = Model::load(path_);
        auto devices = load(path_, GetParam());
        ASSERT_TRUE(cpu.ok()) << cpu.status().message();
        ASSERT_TRUE(devices.ok()) << devices.status().message();
        cpu_.emplace(*cpu);
        devices_.emplace(*devices);
    }
    // And with a gate, of tiny_spec().
    void load_both_with(const GateConfig & gate) {
        const auto files = testing::gated_files(tiny_spec(), gate);
        ASSERT_TRUE(files.ok()) << files.status().message();
        ModelOptions options;
        options.gate_file = files->gate;
        auto cpu = Model::load(files->model, options);
        options.devices = options_of(GetParam());
        auto devices = Model::load(files->model, options);
        ASSERT_TRUE(cpu.ok() && devices.ok()) << devices.status().message();
        cpu_.emplace(*cpu);
        devices_.emplace(*devices);
    }
    void expect_same_under(const std::string & policy, KvType type = KvType::kF32, double most = kParity) {
        SCOPED_TRACE(policy);
        const auto prompt = random_tokens(kPrompt, cpu_->info().n_vocab);
        const SessionOptions options = session_options(policy, type);
        // The CPU has norms behind W_O from products of bytes, devices have the norms themselves.
        const bool ggmls = GetParam().kv_offload && policy.find("critical") != std::string::npos;
        expect_same(run(*devices_, options, prompt, ggmls), run(*cpu_, options, prompt, ggmls), cpu_->info().n_vocab, most);
    }

    std::string path_ = scratch_file("on-devices.gguf");
    std::optional<Model> cpu_, devices_;
};

TEST_P(OnDevices, LogitsTextsAndKeptEntriesAreThoseOfTheCpu) {
    RandomModelSpec spec = tiny_spec();
    spec.n_layers = 4;
    load_both(spec);
    for (const char * policy : {"full", "streaming", "knorm", "keydiff", "h2o", "tova", "snapkv:window=8", "attnvar:window=8",
                                "vmax:window=8", "expected", "matprod:window=8", "laprox", "cake", "lava",
                                "h2o+caote+global+joint", "snapkv:window=8+caote+ada+critical"}) {
        expect_same_under(policy);
    }
}

TEST_P(OnDevices, QuantisedWeightsAndATiedOutputToo) {
    for (const char * type : {"q8_0", "q4_0", "f16"}) {
        SCOPED_TRACE(type);
        RandomModelSpec spec = tiny_spec();
        spec.weight_type = type;
        spec.tied = true;
        load_both(spec);
        // A server multiplies by ggml's products; this program by its own, or by those of the processor's matrix unit, which
        // round otherwise.
        const ggml_type weights = std::string_view(type) == "q8_0"   ? GGML_TYPE_Q8_0
                                  : std::string_view(type) == "q4_0" ? GGML_TYPE_Q4_0
                                                                     : GGML_TYPE_F16;
        const bool own = has_quantised_product(weights, spec.n_embd) || ask_for_amx(AmxNumbers::kInt8);
        if (!GetParam().multiplies_otherwise() && !own) {
            // Activations are rounded before they meet such weights: one beside a step may round to the next. How far that
            // carries is the processor's luck: 0.0053 of the range with q4_0 on one that has AVX2 and no more.
            expect_same_under("h2o", KvType::kF32, GetParam().kv_offload ? 1e-2 : kParity);
            continue;
        }
        const auto prompt = random_tokens(kPrompt, cpu_->info().n_vocab);
        const auto of_prompt = [&](const Model & model) {
            std::vector<float> logits = run(model, session_options("full"), prompt).logits;
            logits.resize(static_cast<size_t>(kPrompt * cpu_->info().n_vocab));
            return logits;
        };
        EXPECT_LE(compare_logits(of_prompt(*devices_), of_prompt(*cpu_), cpu_->info().n_vocab).max_relative, kOtherProducts);
    }
}

TEST_P(OnDevices, WhatLiesThereIsTold) {
    RandomModelSpec spec = tiny_spec();
    spec.n_layers = 4;
    load_both(spec);
    EXPECT_TRUE(cpu_->devices().empty());
    const std::vector<DeviceUse> uses = devices_->devices();
    ASSERT_EQ(uses.size(), GetParam().n_devices());
    int next = 4 + 1 - (GetParam().n_layers < 0 ? 5 : GetParam().n_layers);
    size_t bytes = 0;
    for (const DeviceUse & use : uses) {
        EXPECT_EQ(use.first_layer, next);
        next += use.n_layers;
        bytes += use.weight_bytes;
        EXPECT_GT(use.weight_bytes, 0U);
        EXPECT_EQ(use.has_output, &use == &uses.back());
    }
    EXPECT_EQ(next, 4);
    EXPECT_LT(bytes, devices_->info().weight_bytes) << "rows of embeddings are looked up here";
    if (GetParam().n_layers < 0) {
        const auto embedding = static_cast<size_t>(spec.n_vocab) * static_cast<size_t>(spec.n_embd) * sizeof(float);
        EXPECT_EQ(bytes, devices_->info().weight_bytes - embedding) << "the last norm is here and there";
    }
    auto session = devices_->session(session_options("snapkv:window=8"));
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(random_tokens(kPrompt, cpu_->info().n_vocab)).ok());
    ASSERT_EQ(session->ledger().devices.size(), uses.size());
    size_t lanes = 0;
    size_t n_layers = 0;
    for (const DeviceUse & use : session->ledger().devices) {
        EXPECT_EQ(use.n_kv_layers, GetParam().kv_offload ? use.n_layers : 0);
        EXPECT_EQ(use.n_kv_layers_here, 0) << use.kv_here_because;
        EXPECT_EQ(use.graph_bytes, 0U) << "the prompt's are given back";
        lanes += use.kv_bytes;
        n_layers += static_cast<size_t>(use.n_kv_layers);
    }
    // In steps of 256 entries, K and V: f32 [32] each, of two heads.
    EXPECT_EQ(lanes, n_layers * 2 * 256 * 2 * 32 * sizeof(float));
    if (n_layers == 4) { EXPECT_EQ(session->ledger().kv_allocated_bytes, lanes); }
    ASSERT_TRUE(session->decode().ok());
    for (const DeviceUse & use : session->ledger().devices) { EXPECT_GT(use.graph_bytes, 0U) << "a token's are kept"; }
}

TEST_P(OnDevices, EveryKvTypeAndGgmlsOwnAttention) {
    RandomModelSpec spec = tiny_spec();
    spec.head_dim = 64;  // rows of q8_0 and q4_0 are whole words
    load_both(GetParam().kv_offload ? spec : tiny_spec());
    for (const KvType type : {KvType::kF16, KvType::kBF16, KvType::kQ8_0, KvType::kQ4_0}) {
        // A value beside a step of the type may round to the next; ggml's attention rounds queries to the type, too.
        expect_same_under(GetParam().kv_offload ? "full" : "snapkv:window=8", type, 2e-2);
    }
    RandomModelSpec portable = tiny_spec();
    portable.head_dim = 40;  // a size that Pith's own attention does not serve
    load_both(portable);
    expect_same_under("h2o");
    expect_same_under("snapkv:window=8+ada");
    expect_same_under("snapkv:window=8+caote+ada+critical");
}

TEST_P(OnDevices, SequencesInBatches) {
    load_both(tiny_spec());
    const auto answers = [](const Model & model) {
        EngineOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        options.max_rows = 40;
        auto engine = model.engine(options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        std::vector<int64_t> ids;
        for (const char * policy : {"full", "snapkv:window=8", "h2o", "laprox"}) {
            Request request;
            request.tokens = random_tokens(50 + 9 * static_cast<int>(ids.size()), 384, static_cast<unsigned>(ids.size()));
            request.options.policy = policy;
            if (request.options.policy != "full") { request.options.budget = 36; }
            request.options.chunk = 24;
            request.max_tokens = 10;
            const auto id = engine->submit(std::move(request));
            EXPECT_TRUE(id.ok()) << id.status().message();
            ids.push_back(*id);
        }
        EXPECT_TRUE(engine->run().ok());
        std::vector<std::vector<int32_t>> all;
        for (const int64_t id : ids) {
            EXPECT_EQ(engine->state(id), RequestState::kDone) << engine->status(id).message();
            all.emplace_back(engine->answer(id).begin(), engine->answer(id).end());
        }
        return all;
    };
    EXPECT_EQ(answers(*devices_), answers(*cpu_));
}

// Of states that an engine keeps in memory others go on: from the whole of one, and from a part.
TEST_P(OnDevices, RequestsGoOnFromStatesInMemory) {
    load_both(tiny_spec());
    const auto long_prompt = random_tokens(100, 384, 7);
    const auto other_end = random_tokens(30, 384, 8);
    const auto answers = [&](const Model & model) {
        EngineOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.n_threads = 1;
        options.cache_memory_bytes = static_cast<size_t>(1) << 26U;
        options.grid = 32;
        auto engine = model.engine(options);
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        std::vector<std::vector<int32_t>> all;
        for (const int64_t n_alike : {50, 100, 72}) {
            Request request;
            request.tokens.assign(long_prompt.begin(), long_prompt.begin() + n_alike);
            if (n_alike != 50) { request.tokens.insert(request.tokens.end(), other_end.begin(), other_end.end()); }
            request.options.policy = "snapkv:window=8";
            request.options.budget = 40;
            request.options.chunk = 16;
            request.options.evict_every = 5;
            request.max_tokens = 10;
            const auto id = engine->submit(std::move(request));
            EXPECT_TRUE(id.ok() && engine->run().ok());
            EXPECT_EQ(engine->state(*id), RequestState::kDone) << engine->status(*id).message();
            all.emplace_back(engine->answer(*id).begin(), engine->answer(*id).end());
            if (n_alike != 50) { EXPECT_GT(engine->n_cached(*id), 0) << n_alike; }
        }
        return all;
    };
    EXPECT_EQ(answers(*devices_), answers(*cpu_));
}

TEST_P(OnDevices, AnAdapterGoesWithIt) {
    ASSERT_TRUE(write_random_model(tiny_spec(), path_).ok());
    const auto plain = Model::load(path_);
    ASSERT_TRUE(plain.ok());
    const std::string adapter = scratch_file("on-devices-lora.gguf");
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), adapter).ok());
    ModelOptions options;
    options.lora_file = adapter;
    const auto cpu = Model::load(path_, options);
    const auto devices = load(path_, GetParam(), options);
    ASSERT_TRUE(cpu.ok() && devices.ok()) << devices.status().message();
    const auto prompt = random_tokens(kPrompt, plain->info().n_vocab);
    const Outcome expected = run(*cpu, session_options("laprox"), prompt);
    expect_same(run(*devices, session_options("laprox"), prompt), expected, plain->info().n_vocab);
    EXPECT_NE(run(*plain, session_options("laprox"), prompt).logits, expected.logits) << "it changes something";
}

// They read the input of a layer that is somewhere else.
TEST_P(OnDevices, GatesSayTheSame) {
    for (const bool linear : {false, true}) {
        GateConfig gate = testing::even_gate();
        gate.kind = linear ? GateKind::kLinear : GateKind::kAttention;
        gate.causal = !linear;
        gate.source = linear ? GateSource::kPrevious : GateSource::kOwn;
        gate.first_layer = linear ? 1 : 0;
        ASSERT_NO_FATAL_FAILURE(load_both_with(gate));
        const auto prompt = random_tokens(kPrompt, cpu_->info().n_vocab);
        for (const char * policy : {"gated", "gate", "gated+snapkv:window=8"}) {
            SCOPED_TRACE(policy);
            SessionOptions session = session_options(policy);
            if (session.policy == "gated") { session.budget = Budget(); }
            const Outcome expected = run(*cpu_, session, prompt);
            expect_same(run(*devices_, session, prompt), expected, cpu_->info().n_vocab);
            const size_t all = static_cast<size_t>(kPrompt + kDecoded) * 3 * 2;  // of the layers' lanes
            EXPECT_LT(expected.kept.size(), all);
        }
    }
}

// Its gates let all in, so it could share a pass; but its lanes lie here, and those of the other may lie on a device.
TEST_P(OnDevices, AGatedSequenceAnswersBesideAnother) {
    constexpr int kAnswer = 60;  // so that both answer for a while
    GateConfig gate = testing::even_gate();
    gate.tau = 1e-6F;
    ASSERT_NO_FATAL_FAILURE(load_both_with(gate));
    const auto said_by = [&](const Model & model, bool gated_first) {
        auto engine = model.engine(testing::exact_engine_options());
        EXPECT_TRUE(engine.ok()) << engine.status().message();
        std::vector<std::vector<int32_t>> said(2);
        for (size_t i = 0; i < said.size(); ++i) {
            const bool is_gated = (i == 0) == gated_first;
            Request request;
            request.tokens = random_tokens(kPrompt, model.info().n_vocab, static_cast<unsigned>(i));
            request.options = session_options(is_gated ? "gated" : "snapkv:window=8");
            if (is_gated) { request.options.budget = Budget(); }
            request.max_tokens = kAnswer;
            request.choose = [&said, i](std::span<const float> logits) -> Result<int32_t> {
                said[i].push_back(likeliest_token(logits));
                return said[i].back();
            };
            const auto id = engine->submit(request);
            EXPECT_TRUE(id.ok()) << id.status().message();
        }
        const Status run = engine->run();
        EXPECT_TRUE(run.ok()) << run.message();
        return said;
    };
    for (const bool gated_first : {false, true}) {
        const auto expected = said_by(*cpu_, gated_first);
        EXPECT_EQ(expected.front().size(), static_cast<size_t>(kAnswer));
        EXPECT_EQ(said_by(*devices_, gated_first), expected);
    }
}

// Lanes lie here: what is saved on one is opened on the other.
TEST_P(OnDevices, FilesAndSnapshotsAreAsWithout) {
    load_both(tiny_spec());
    const auto prompt = random_tokens(kPrompt, cpu_->info().n_vocab);
    auto session = devices_->session(session_options("snapkv:window=8"));
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->prefill(prompt).ok());
    auto snapshot = session->snapshot();
    ASSERT_TRUE(snapshot.ok());
    const std::string file = scratch_file("on-devices.cache");
    ASSERT_TRUE(session->save(file).ok());
    std::vector<int32_t> first, again, opened;
    for (int i = 0; i < kDecoded; ++i) { first.push_back(session->decode().value()); }
    ASSERT_TRUE(session->restore(*snapshot).ok());
    for (int i = 0; i < kDecoded; ++i) { again.push_back(session->decode().value()); }
    auto on_cpu = cpu_->open_session(file, 1);
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.status().message();
    for (int i = 0; i < kDecoded; ++i) { opened.push_back(on_cpu->decode().value()); }
    EXPECT_EQ(again, first);
    EXPECT_EQ(opened, first);
}

// One's token, the other's token, and a third that reads a prompt in between.
TEST_P(OnDevices, SessionsSideBySide) {
    load_both(tiny_spec());
    const auto prompt_of = [&](unsigned i) { return random_tokens(kPrompt, cpu_->info().n_vocab, i + 7); };
    std::vector<Session> sessions;
    std::vector<std::vector<int32_t>> got(2);
    for (unsigned i = 0; i < 2; ++i) {
        sessions.push_back(devices_->session(session_options("h2o")).value());
        ASSERT_TRUE(sessions.back().prefill(prompt_of(i)).ok());
    }
    for (int t = 0; t < kDecoded; ++t) {
        for (size_t i = 0; i < 2; ++i) { got[i].push_back(sessions[i].decode().value()); }
        if (t == 3) { EXPECT_TRUE(devices_->session(session_options("full"))->prefill(prompt_of(3)).ok()); }
    }
    for (unsigned i = 0; i < 2; ++i) { EXPECT_EQ(got[i], run(*cpu_, session_options("h2o"), prompt_of(i)).answer); }
}

// Sessions of two threads on one model take turns.
TEST_P(OnDevices, TwoThreadsAtATime) {
    load_both(tiny_spec());
    std::vector<Outcome> got(2), expected(2);
    const auto prompt_of = [&](size_t i) { return random_tokens(kPrompt, cpu_->info().n_vocab, static_cast<unsigned>(i) + 7); };
    std::vector<std::thread> threads;
    for (size_t i = 0; i < got.size(); ++i) {
        threads.emplace_back([&, i] { got[i] = run(*devices_, session_options("h2o"), prompt_of(i)); });
    }
    for (std::thread & thread : threads) { thread.join(); }
    for (size_t i = 0; i < got.size(); ++i) {
        expected[i] = run(*cpu_, session_options("h2o"), prompt_of(i));
        expect_same(got[i], expected[i], cpu_->info().n_vocab);
    }
}

INSTANTIATE_TEST_SUITE_P(Rpc, OnDevices, ::testing::Values(Where{"all"}, Where{"some", 1, 2}, Where{"split", 2, -1, {1, 1}}),
                         [](const auto & test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(Device, OnDevices, ::testing::ValuesIn(on_a_device()),
                         [](const auto & test) { return test.param.name; });

// With keys and values there, attention and evidence are the device's.
INSTANTIATE_TEST_SUITE_P(Lanes, OnDevices,
                         ::testing::Values(Where{"all", 1, -1, {}, true}, Where{"some", 1, 2, {}, true},
                                           Where{"split", 2, -1, {1, 1}, true}),
                         [](const auto & test) { return test.param.name; });

class LanesOnDevices : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    }
    // A model of these, with lanes on a device or here.
    static Result<Model> load_spec(const RandomModelSpec & spec, bool kv_offload) {
        const std::string path = scratch_file(kv_offload ? "lanes-there.gguf" : "lanes-here.gguf");
        PITH_RETURN_IF_ERROR(write_random_model(spec, path));
        return kv_offload ? load(path, Where{"all", 1, -1, {}, true}) : Model::load(path);
    }
};

// Ragged lanes of several rooms, layer by layer and in chunks, and an answer that outgrows a room.
TEST_F(LanesOnDevices, LongerThanARoomInBothSchedules) {
    RandomModelSpec spec = tiny_spec(8, 4);
    const auto cpu = load_spec(spec, false);
    const auto devices = load_spec(spec, true);
    ASSERT_TRUE(cpu.ok() && devices.ok()) << devices.status().message();
    const auto prompt = random_tokens(600, spec.n_vocab);
    for (const char * policy : {"snapkv:window=8+ada", "laprox", "h2o"}) {
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            SCOPED_TRACE(policy);
            SessionOptions options = session_options(policy);
            options.budget = 252;
            options.chunk = 100;
            options.evict_every = 64;
            options.prefill = schedule;
            expect_same(run(*devices, options, prompt), run(*cpu, options, prompt), spec.n_vocab);
        }
    }
}

// A call that fails behind evictions: lanes are as before, and what follows is what would have followed.
TEST_F(LanesOnDevices, AFailedCallLeavesThemAsTheyWere) {
    const RandomModelSpec spec = tiny_spec();
    const auto devices = load_spec(spec, true);
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    const auto prompt = random_tokens(kPrompt, spec.n_vocab);
    const auto more = random_tokens(kPrompt, spec.n_vocab, 3);
    const auto answer_of = [&](bool fails) {
        std::vector<int32_t> answer;
        auto session = devices->session(session_options("h2o+ada"));
        EXPECT_TRUE(session.ok() && session->prefill(prompt).ok());
        if (fails) {
            std::atomic<bool> cancel = false;
            RunHooks hooks;
            hooks.cancel = &cancel;
            hooks.progress = [&](int64_t n_done, int64_t) { cancel = n_done >= 48; };
            EXPECT_EQ(session->prefill(more, hooks).code(), ErrorCode::kCancelled);
        }
        for (int i = 0; i < kDecoded; ++i) { answer.push_back(session->decode().value()); }
        return answer;
    };
    EXPECT_EQ(answer_of(true), answer_of(false));
}

TEST_F(LanesOnDevices, WhatCannotLieThereStaysHereByName) {
    const RandomModelSpec spec = tiny_spec();
    const auto devices = load_spec(spec, true);
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    auto session = devices->session(session_options("snapkv:window=8", KvType::kQ8_0));
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_EQ(session->ledger().devices.size(), 1U);
    const DeviceUse & use = session->ledger().devices.front();
    EXPECT_EQ(use.n_kv_layers, 0);
    EXPECT_EQ(use.n_kv_layers_here, spec.n_layers);
    EXPECT_NE(use.kv_here_because.find("34 bytes"), std::string::npos) << use.kv_here_because;
    EXPECT_TRUE(session->prefill(random_tokens(kPrompt, spec.n_vocab)).ok());

    SessionOptions unknown = session_options("snapkv:window=8");
    unknown.budget = Budget(BudgetKind::kAuto, 0);
    auto counting = devices->session(unknown);  // what is left there holds it all
    ASSERT_TRUE(counting.ok());
    const Status read = counting->prefill(random_tokens(kPrompt, spec.n_vocab));
    EXPECT_TRUE(read.ok()) << read.message();
    EXPECT_EQ(counting->ledger().evicted_entries, 0);
}

// A budget in bytes bounds what the device allocates, the layer that is compacted included.
TEST_F(LanesOnDevices, BytesAreThoseOfTheDevice) {
    const RandomModelSpec spec = tiny_spec();
    const auto devices = load_spec(spec, true);
    ASSERT_TRUE(devices.ok()) << devices.status().message();
    SessionOptions options = session_options("snapkv:window=8");
    options.budget = Budget(BudgetKind::kBytes, 2.0 * (1 << 20U));
    options.chunk = 64;
    auto session = devices->session(options);
    ASSERT_TRUE(session.ok());
    const Status read = session->prefill(random_tokens(1500, spec.n_vocab));
    ASSERT_TRUE(read.ok()) << read.message();
    EXPECT_LE(session->ledger().kv_peak_bytes, static_cast<size_t>(2) << 20U);
    EXPECT_GT(session->ledger().evicted_entries, 0);
}

// A GPU sums otherwise: now and then a hair decides that another expert is asked, or another entry stays.
void expect_about_the_same(const Outcome & got, const Outcome & expected, const ModelInfo & info) {
    const auto before = [&](std::vector<float> logits) {  // of the prompt, before anything is evicted
        logits.resize(static_cast<size_t>(kPrompt * info.n_vocab));
        return logits;
    };
    const auto difference = compare_logits(before(got.logits), before(expected.logits), info.n_vocab);
    std::cout << "before evictions " << difference.max_relative;
    EXPECT_LE(difference.max_relative, info.n_experts == 0 ? 1e-3 : 0.25);
    std::vector<int64_t> others;
    std::ranges::set_difference(got.kept, expected.kept, std::back_inserter(others));
    std::cout << ", " << others.size() << " of " << expected.kept.size() << " entries others\n";
    EXPECT_EQ(got.kept.size(), expected.kept.size());
    EXPECT_LE(others.size(), expected.kept.size() / 20);
}

// Windows, sinks, experts, recurrent layers, keys that layers share, told tokens: whatever the layers are. Of every kind one,
// or all there are.
void expect_every_kind_of_layer(const Where & where) {
    const bool all = testing::every_case();
    std::set<std::string> seen;
    for (const testing::ArchitectureFile & one : testing::architecture_files()) {
        if (!seen.insert(one.arch).second && !all) { continue; }
        SCOPED_TRACE(one.name);
        const std::string path = scratch_file("architecture-on-a-device.gguf");
        ASSERT_TRUE(testing::write_architecture_file(one, path));
        const auto cpu = Model::load(path);
        ASSERT_TRUE(cpu.ok()) << cpu.status().message();
        const auto prompt = random_tokens(kPrompt, cpu->info().n_vocab);
        const SessionOptions options = session_options(all ? "snapkv:window=8+ada" : "snapkv:window=8");
        const Outcome expected = run(*cpu, options, prompt);
        for (const bool kv_offload : {false, true}) {
            SCOPED_TRACE(kv_offload);
            Where lanes_too = where;
            lanes_too.kv_offload = kv_offload;
            const auto devices = load(path, lanes_too);
            ASSERT_TRUE(devices.ok()) << devices.status().message();
            const Outcome got = run(*devices, options, prompt);
            ASSERT_EQ(got.logits.size(), expected.logits.size());
            const auto difference = compare_logits(got.logits, expected.logits, cpu->info().n_vocab);
            std::cout << one.name << ": max |d|/range " << difference.max_relative << "\n";
            // On Vulkan it is one of gemma4's entries; CUDA rounds the products of experts, too.
            if (where.is_vulkan() ? one.arch == "gemma4" : where.multiplies_otherwise()) {
                expect_about_the_same(got, expected, cpu->info());
                continue;
            }
            EXPECT_LE(difference.max_relative, 1e-3);
            EXPECT_EQ(difference.n_argmax_changed, 0);
            EXPECT_EQ(got.kept, expected.kept);
        }
    }
}

TEST(EveryKindOfLayer, LogitsAndKeptEntriesAreThoseOfTheCpu) {
    if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    expect_every_kind_of_layer({"all"});
}

TEST(EveryKindOfLayer, OnADevice) {
    if (on_a_device().empty()) { GTEST_SKIP() << "ctest -L vulkan runs it, where scripts/setup --devices was"; }
    expect_every_kind_of_layer(on_a_device().front());
}

// The program: what is there, and a text as without devices.
std::string output_of(const std::string & arguments) {
    const std::string command = std::string(PITH_PROGRAM) + " " + arguments + " 2>/dev/null";
    std::string out;
    FILE * pipe = popen(command.c_str(), "r");
    char part[4096];
    while (pipe != nullptr && std::fgets(part, sizeof part, pipe) != nullptr) { out += part; }
    if (pipe != nullptr) { pclose(pipe); }
    return out;
}

TEST(DevicesOfTheProgram, AreListedAndUsed) {
    if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    // A server of its own: those of this process are busy with it.
    RpcProcess server;
    ASSERT_TRUE(server.answers());
    const std::string path = scratch_file("program-on-a-device.gguf");
    RandomModelSpec spec = tiny_spec();
    ASSERT_TRUE(write_random_model(spec, path).ok());
    const std::string listed = output_of("run --list-devices --rpc " + server.endpoint());
    EXPECT_NE(listed.find("RPC0"), std::string::npos) << listed;
    EXPECT_NE(listed.find(server.endpoint()), std::string::npos) << listed;
    EXPECT_NE(listed.find("free"), std::string::npos) << listed;
    const std::string flags = "run -m " + path + " -p hello --raw --temp 0 -n 12 -t 1 -ctk f32 -ctv f32";
    const std::string alone = output_of(flags);
    EXPECT_FALSE(alone.empty());
    EXPECT_EQ(output_of(flags + " --rpc " + server.endpoint()), alone);
    EXPECT_EQ(output_of(flags + " -ngl 2 --rpc " + server.endpoint()), alone);
    const std::string json = output_of(flags + " --json -ngl 1 --rpc " + server.endpoint());
    EXPECT_NE(json.find("\"has_output\": true"), std::string::npos) << json;
    const std::string lanes = output_of(flags + " --json -kvo --rpc " + server.endpoint());
    EXPECT_NE(lanes.find("\"n_kv_layers\": 3"), std::string::npos) << lanes;
    EXPECT_EQ(output_of(flags + " -kvo --rpc " + server.endpoint()), alone);
    const std::string kv_info = output_of("info " + path + " --kv-offload --rpc " + server.endpoint());
    EXPECT_NE(kv_info.find("of keys and values of 3 layers"), std::string::npos) << kv_info;
    const std::string info = output_of("info " + path + " --rpc " + server.endpoint());
    EXPECT_NE(info.find("layers 0-2 and the output"), std::string::npos) << info;
}

// Whatever computes with a model takes them, and comes to the same.
TEST(DevicesOfTheProgram, ServeEveryCommand) {
    if (const std::string why = nothing_to_test(); !why.empty()) { GTEST_SKIP() << why; }
    RpcProcess server;
    ASSERT_TRUE(server.answers());
    const std::string path = scratch_file("commands-on-a-device.gguf");
    ASSERT_TRUE(write_random_model(tiny_spec(), path).ok());
    const std::string text = scratch_file("commands-on-a-device.txt");
    std::ofstream(text) << "Once upon a time there was a river, and nobody who lived beside it knew where it came from.\n";
    const std::string on = " --rpc " + server.endpoint();
    const std::string of_model = " -m " + path + " -t 1 -ctk f32 -ctv f32";
    for (const std::string & command :
         {"eval ruler --tasks niah_single_1 --context 1024 --samples 2 --policy snapkv:window=8 --budget 64 --raw --csv" +
              of_model,
          "inspect -f " + text + " --raw --policy snapkv:window=8,h2o --budget 16" + of_model}) {
        SCOPED_TRACE(command);
        const std::string alone = output_of(command);
        EXPECT_FALSE(alone.empty());
        EXPECT_EQ(output_of(command + on), alone);
        if (command.starts_with("eval")) { EXPECT_EQ(output_of(command + " --parallel 2" + on), alone); }
    }
    // In a process of its own for each case, and in this one.
    const std::string bench = "bench -p 16 -n 4 -r 2 --json" + of_model + on;
    EXPECT_NE(output_of(bench + " -ngl 2").find("\"n_device_layers\": 2"), std::string::npos);
    EXPECT_NE(output_of(bench + " --depth 64 --in-turns --no-llama").find("\"n_repetitions\": 2"), std::string::npos);
}

}  // namespace
}  // namespace pith::devices_test
