// parity_test.cpp - a session's logits against libllama's at every position, prefill and decode, for every architecture:
// flash attention off and f32 K/V there, f32 K/V here.
#include <gtest/gtest.h>

#include <iostream>

#include "engine/tiny_model.h"
#include "model/architectures.h"
#include "model/llama_logits.h"

namespace pith::parity_test {
namespace {

using testing::compare_logits;
using testing::llama_logits;
using testing::random_tokens;

constexpr int kPrompt = 60;
constexpr int kDecoded = 20;

// Logits [n][n_vocab] of a prompt in chunks and decoded tokens.
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
    hooks.on_logits = [&](int64_t position, std::span<const float> row) {
        EXPECT_EQ(position * model.info().n_vocab, static_cast<int64_t>(logits.size()));
        logits.insert(logits.end(), row.begin(), row.end());
    };
    const Status status = session->prefill(std::span(tokens).first(kPrompt), hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    for (size_t i = kPrompt; i < tokens.size(); ++i) {
        EXPECT_TRUE(session->append(tokens[i]).ok());
        logits.insert(logits.end(), session->logits().begin(), session->logits().end());
    }
    return logits;
}

class SessionParity : public ::testing::TestWithParam<testing::ArchitectureCase> {};

TEST_P(SessionParity, LogitsEqualLibllamasInPrefillAndDecode) {
    const std::string path = testing::scratch_file("parity.gguf");
    ASSERT_TRUE(write_random_model(GetParam().spec, path).ok());
    const auto model = Model::load(path);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, model->info().n_vocab);
    const auto reference = llama_logits(path, tokens);
    for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
        const auto logits = session_logits(*model, tokens, schedule);
        ASSERT_EQ(logits.size(), reference.size());
        const auto difference = compare_logits(logits, reference, model->info().n_vocab);
        std::cout << GetParam().name << ": max |d|/range " << difference.max_relative << "\n";
        EXPECT_LE(difference.max_relative, 1e-3);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(F32, SessionParity, ::testing::ValuesIn(testing::architecture_cases()),
                         [](const auto & test) { return test.param.name; });

}  // namespace
}  // namespace pith::parity_test
