// architectures_test.cpp - sessions of every architecture: logits against libllama's, evictions against masking, and the bits
// of what is held after snapshots, calls that fail, batches and files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "engine/answers_alone.h"
#include "engine/gated_model.h"
#include "engine/mask_oracle.h"
#include "engine/rest/saved_and_opened.h"
#include "engine/session_state.h"
#include "every_case.h"
#include "gate/random_gate.h"
#include "model/architecture_files.h"
#include "model/llama_logits.h"
#include "model/random_lora.h"
#include "pith/log.h"

namespace pith::architectures_test {
namespace {

using testing::architecture_files;
using testing::ArchitectureFile;
using testing::compare_logits;
using testing::kDecoded;
using testing::kEvictionSchedules;
using testing::kPrompt;
using testing::llama_logits;
using testing::random_tokens;

class ArchitectureSession : public ::testing::TestWithParam<ArchitectureFile> {
protected:
    void SetUp() override { ASSERT_TRUE(write_architecture_file(GetParam(), path_)); }

    Result<Model> load(const ModelOptions & options = {}) const { return Model::load(path_, options); }

    // Gates in front of every KV head, for policies that ask them.
    Result<Model> load_gated(GateConfig gates) const {
        gates.causal = true;
        PITH_ASSIGN_OR_RETURN(const Model plain, load());
        const testing::RandomGate gate(gates, file_of(plain).hparams());
        PITH_RETURN_IF_ERROR(save_gate(path_ + ".gate", gates, gate.weights, {}, file_of(plain)));
        ModelOptions options;
        options.gate_file = path_ + ".gate";
        return load(options);
    }

    std::string path_ = testing::scratch_file("architecture.gguf");
};

// Logits [n][n_vocab] of a prompt and of tokens decoded behind it.
std::vector<float> session_logits(const Model & model, const std::vector<int32_t> & tokens, PrefillSchedule schedule) {
    SessionOptions options;
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.chunk = 24;
    options.prefill = schedule;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<float> logits;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); };
    EXPECT_TRUE(session->prefill(std::span(tokens).first(kPrompt), hooks).ok());
    for (size_t i = kPrompt; i < tokens.size(); ++i) {
        EXPECT_TRUE(session->append(tokens[i]).ok());
        logits.insert(logits.end(), session->logits().begin(), session->logits().end());
    }
    return logits;
}

TEST_P(ArchitectureSession, LogitsEqualLibllamasInPrefillAndDecode) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
    const auto reference = llama_logits(path_, tokens);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        const auto logits = session_logits(*model, tokens, schedule);
        ASSERT_EQ(logits.size(), reference.size());
        const auto difference = compare_logits(logits, reference, model->info().n_vocab);
        std::cout << GetParam().name << ": max |d|/range " << difference.max_relative << "\n";
        EXPECT_LE(difference.max_relative, 1e-3);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

TEST_P(ArchitectureSession, EvictionEqualsMasking) {
    auto model = load_gated(testing::even_gate());
    std::vector<std::string> policies = {"snapkv:window=8", "h2o",      "laprox", "criticalkv",
                                         "keydiff",         "expected", "score",  "knorm"};
    if (model.ok()) {
        policies.emplace_back("gate");
    } else {
        EXPECT_NE(model.status().message().find(", and gates are not made for these"), std::string::npos)
            << model.status().message();
        model = load();
    }
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
    // ggml's gelu looks up what it is given, rounded to f16: what differs in the last bit may come back as another number.
    const double limit = file_of(*model).hparams().form.activation == Activation::kGelu ? 2e-4 : 1e-5;
    size_t i = 0;
    for (const std::string & policy : policies) {
        const auto & schedule = kEvictionSchedules[i % std::size(kEvictionSchedules)];
        if (!testing::in_turn(GetParam().name, i++, policies.size())) { continue; }
        SCOPED_TRACE(policy + ", " + schedule.name);
        const auto got = testing::run_evicting(*model, policy, schedule, KvType::kF32, tokens);
        EXPECT_GT(got.log.size(), 0U);
        EXPECT_LE(testing::relative_error(got.logits, testing::masked_logits(*model, got.log, tokens)), limit);
    }
}

// Of matrices that the file has apart, libllama reads the same adapter; of fused ones it knows the whole only.
TEST_P(ArchitectureSession, AnAdapterIsAppliedAsLibllamaDoes) {
    const auto plain = load();
    ASSERT_TRUE(plain.ok());
    const std::string adapter = path_ + ".lora";
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), adapter).ok());
    ModelOptions options;
    options.lora_file = adapter;
    const auto model = load(options);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
    const auto logits = session_logits(*model, tokens, PrefillSchedule::kChunked);
    EXPECT_NE(logits, session_logits(*plain, tokens, PrefillSchedule::kChunked));
    const auto reference = llama_logits(path_, tokens, false, 1, adapter);
    if (reference.empty()) { GTEST_SKIP() << "libllama does not read this adapter"; }
    EXPECT_LE(compare_logits(logits, reference, model->info().n_vocab).max_relative, 1e-3);
}

TEST_P(ArchitectureSession, ASavedSessionGoesOnAsIfItHadNeverBeenSaved) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(180, model->info().n_vocab);
    const std::string file = testing::scratch_file("architecture.pith");
    size_t i = 0;
    for (const auto & [policy, prefill] :
         {std::pair{"h2o:recent=6", PrefillSchedule::kChunked}, std::pair{"laprox", PrefillSchedule::kOneShot}}) {
        if (!testing::in_turn(GetParam().name, i++, 2)) { continue; }
        SessionOptions options;
        options.policy = policy;
        options.budget = 48;
        options.prefill = prefill;
        options.chunk = 24;
        options.evict_every = 8;
        options.n_threads = 1;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(std::span(tokens).first(80)).ok());
        const Status saved = session->save(file);
        if (saved.code() == ErrorCode::kUnsupported) {
            EXPECT_NE(saved.message().find("models with recurrent layers"), std::string::npos) << saved.message();
            return;
        }
        ASSERT_TRUE(saved.ok()) << saved.message();
        auto opened = model->open_session(file, 1);
        ASSERT_TRUE(opened.ok()) << opened.status().message();
        EXPECT_TRUE(testing::state_of(*opened) == testing::state_of(*session));
        for (const int32_t token : std::span(tokens).subspan(80)) {
            ASSERT_TRUE(session->append(token).ok());
            ASSERT_TRUE(opened->append(token).ok());
            ASSERT_TRUE(std::ranges::equal(opened->logits(), session->logits()));
        }
        EXPECT_TRUE(testing::state_of(*opened) == testing::state_of(*session));
    }
}

SessionOptions evicting_options(const std::string & policy) {
    SessionOptions options;
    options.policy = policy;
    if (policy != "full") { options.budget = Budget(48); }
    options.prefill = PrefillSchedule::kChunked;
    options.chunk = 24;
    options.evict_every = 8;
    options.n_threads = 1;
    return options;
}

TEST_P(ArchitectureSession, SnapshotsComeBackBitForBit) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(100, model->info().n_vocab);
    size_t i = 0;
    for (const char * policy : {"full", "h2o"}) {
        if (!testing::in_turn(GetParam().name, i++, 2)) { continue; }
        SCOPED_TRACE(policy);
        auto session = model->session(evicting_options(policy));
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(tokens).ok());
        const auto snapshot = session->snapshot();
        ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
        const auto before = testing::contents_of(*session);
        for (int t = 0; t < 40; ++t) { ASSERT_TRUE(session->decode().ok()); }
        const auto after = testing::contents_of(*session);
        EXPECT_FALSE(after == before);
        ASSERT_TRUE(session->restore(*snapshot).ok());
        EXPECT_TRUE(testing::contents_of(*session) == before);
        for (int t = 0; t < 40; ++t) { ASSERT_TRUE(session->decode().ok()); }
        EXPECT_TRUE(testing::contents_of(*session) == after);
    }
}

TEST_P(ArchitectureSession, ACallThatFailsLeavesItAsItWas) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(220, model->info().n_vocab);
    size_t i = 0;
    for (const char * policy : {"full", "h2o", "snapkv:window=8"}) {
        if (!testing::in_turn(GetParam().name, i++, 3)) { continue; }
        SCOPED_TRACE(policy);
        auto session = model->session(evicting_options(policy));
        ASSERT_TRUE(session.ok()) << session.status().message();
        ASSERT_TRUE(session->prefill(std::span(tokens).first(90)).ok());
        const auto before = testing::contents_of(*session);
        for (const int64_t n_until : {24, 72}) {  // at the first chunk, and behind evictions of the same call
            int n_heard = 0;
            RunHooks hooks;
            hooks.progress = [&](int64_t n_done, int64_t) {
                ++n_heard;
                if (n_done >= n_until) { throw std::runtime_error("enough"); }
            };
            const Status failed = session->prefill(std::span(tokens).subspan(90), hooks);
            EXPECT_NE(failed.message().find("enough"), std::string::npos) << failed.message();
            EXPECT_GT(n_heard, 0);
            EXPECT_TRUE(testing::contents_of(*session) == before) << n_until;
        }
        auto other = model->session(evicting_options(policy));
        ASSERT_TRUE(other.ok());
        ASSERT_TRUE(other->prefill(std::span(tokens).first(90)).ok());
        for (Session * one : {&*session, &*other}) { ASSERT_TRUE(one->prefill(std::span(tokens).subspan(90)).ok()); }
        EXPECT_TRUE(testing::contents_of(*session) == testing::contents_of(*other));
    }
}

TEST_P(ArchitectureSession, ABatchOfFourAnswersAsEachDoesAlone) {
    const auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().message();
    std::vector<Request> requests;
    for (unsigned i = 0; i < 4; ++i) {
        Request & request = requests.emplace_back();
        request.tokens = testing::random_tokens(60 + 30 * static_cast<int>(i), model->info().n_vocab, i);
        request.options = evicting_options(i % 2 == 0 ? "full" : "h2o");
        request.max_tokens = 24;
    }
    testing::expect_batch_answers_as_alone(*model, requests);
}

// What is exact is not spoken of.
TEST(EvidenceNotes, SayWhatAPolicyLooksAtAndTheModelDoesOtherwise) {
    struct Case {
        const char * file;
        const char * policy;
        const char * text;  // empty: nothing is said
    };
    const auto files = architecture_files();
    const std::string path = testing::scratch_file("noted.gguf");
    for (const Case & c : {
             Case{"llama_everything", "laprox", ""},
             Case{"glm4", "laprox", "'laprox' on architecture 'glm4': a norm behind the attention divides"},
             Case{"glm4", "snapkv+global", ""},
             Case{"glm4", "criticalkv", ""},
             Case{"gemma2", "expected", "scores are soft-capped"},
             Case{"gemma2", "snapkv", ""},
             Case{"qwen35", "laprox", "a gate stands behind the attention"},
             Case{"qwen35", "h2o", ""},
             Case{"gemma4_shared_keys", "h2o", "the queries of 1 layer that read another's keys are not counted"},
             Case{"gemma4_shared_keys", "knorm", ""},
             Case{"gpt_oss", "laprox", ""},
             Case{"gpt_oss", "expected", ""},
             Case{"smollm3", "expected", ""},
         }) {
        SCOPED_TRACE(std::string(c.file) + ", " + c.policy);
        ASSERT_TRUE(write_architecture_file(*std::ranges::find(files, c.file, &ArchitectureFile::name), path));
        const auto model = Model::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        std::string said;
        set_log_sink([&](LogLevel, std::string_view line) { said += line.starts_with("policy ") ? std::string(line) : ""; });
        const auto session = model->session(evicting_options(c.policy));
        set_log_sink({});
        ASSERT_TRUE(session.ok()) << session.status().message();
        EXPECT_EQ(said.empty(), std::string(c.text).empty()) << said;
        EXPECT_NE(said.find(c.text), std::string::npos) << said;
    }
}

// Llama 4's chunks are 8,192 wide whatever the file says: over a border inside a feed, at its end, and while decoding.
constexpr int kBorder = 8192;  // between chunks

std::string model_with_chunks() {
    const auto files = architecture_files();
    ArchitectureFile file = *std::ranges::find(files, "llama4", &ArchitectureFile::name);
    const auto keys = file.keys;
    file.keys = [&](const testing::ArchitectureKeys & to) { keys(to), to.u32("context_length", 4 * kBorder); };
    const std::string path = testing::scratch_file("chunks.gguf");
    EXPECT_TRUE(write_architecture_file(file, path));
    return path;
}

// Layers that see chunks hold nothing then.
TEST(ChunksOfAttention, ASessionIsSavedWhereOneHasJustEnded) {
    const auto model = Model::load(model_with_chunks());
    ASSERT_TRUE(model.ok()) << model.status().message();
    SessionOptions options;
    options.policy = "snapkv:window=8";
    options.budget = 64;
    options.chunk = 512;
    options.prefill = PrefillSchedule::kChunked;
    options.n_threads = 1;
    auto session = model->session(options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->prefill(random_tokens(kBorder, model->info().n_vocab)).ok());
    EXPECT_TRUE(session->lane_positions(0, 0).empty());
    testing::expect_saving_changes_nothing(*model, *session, false);
}

TEST(LongTexts, ChunksBeginAnewWhereLibllamasDo) {
    if (std::getenv("PITH_LONG_TEXTS") == nullptr) { GTEST_SKIP() << "takes seconds: ctest -L slow"; }
    const std::string path = model_with_chunks();
    const auto model = Model::load(path, {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(2 * kBorder + 100, model->info().n_vocab);  // over two borders
    const auto reference = llama_logits(path, tokens, false, 2, "", 1.0F, 512);
    const auto width = static_cast<size_t>(model->info().n_vocab);
    ASSERT_EQ(reference.size(), tokens.size() * width);
    for (const auto & [schedule, n_prompt] :
         {std::pair{PrefillSchedule::kOneShot, 2 * kBorder + 50}, std::pair{PrefillSchedule::kChunked, 2 * kBorder - 10},
          std::pair{PrefillSchedule::kChunked, 2 * kBorder}}) {
        SessionOptions options;
        options.type_k = options.type_v = KvType::kF32;
        options.chunk = 500;
        options.prefill = schedule;
        auto session = model->session(options);
        ASSERT_TRUE(session.ok()) << session.status().message();
        std::vector<float> logits;
        RunHooks hooks;
        hooks.on_logits = [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); };
        ASSERT_TRUE(session->prefill(std::span(tokens).first(static_cast<size_t>(n_prompt)), hooks).ok());
        for (size_t i = static_cast<size_t>(n_prompt); i < tokens.size(); ++i) {
            ASSERT_TRUE(session->append(tokens[i]).ok());
            logits.insert(logits.end(), session->logits().begin(), session->logits().end());
        }
        const auto difference = compare_logits(logits, reference, model->info().n_vocab);
        std::cout << "chunks: max |d|/range " << difference.max_relative << "\n";
        EXPECT_LE(difference.max_relative, 1e-3);
        EXPECT_EQ(difference.n_argmax_changed, 0);
        EXPECT_EQ(session->lane_positions(0, 0).front(), 2 * kBorder);
        EXPECT_EQ(session->lane_positions(3, 0).front(), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(F32, ArchitectureSession, ::testing::ValuesIn(architecture_files()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::architectures_test
