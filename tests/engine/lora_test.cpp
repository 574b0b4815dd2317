// lora_test.cpp - a model with an adapter: logits against libllama's with the same one, for every architecture; the output
// projection as evidence reads it; what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>

#include "device/backend.h"
#include "engine/parts/model_parts.h"
#include "engine/pass/forward.h"
#include "engine/tiny_model.h"
#include "model/adapted_model.h"
#include "model/architectures.h"
#include "model/llama_logits.h"
#include "model/output_factors.h"
#include "model/random_lora.h"

namespace pith::lora_test {
namespace {

using testing::compare_logits;
using testing::llama_logits;
using testing::random_tokens;
using testing::scratch_file;

constexpr int kPrompt = 30;
constexpr int kDecoded = 8;

// Logits [n][n_vocab] of a prompt and decoded tokens.
std::vector<float> session_logits(const Model & model, const std::vector<int32_t> & tokens, PrefillSchedule schedule,
                                  std::vector<PolicyChoice> observe = {}) {
    SessionOptions options;
    options.observe = std::move(observe);
    options.type_k = options.type_v = KvType::kF32;
    options.n_threads = 1;
    options.chunk = 16;
    options.prefill = schedule;
    auto session = model.session(options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<float> logits;
    RunHooks hooks;
    hooks.on_logits = [&](int64_t, std::span<const float> row) { logits.insert(logits.end(), row.begin(), row.end()); };
    const Status status = session->prefill(std::span(tokens).first(kPrompt), hooks);
    EXPECT_TRUE(status.ok()) << status.message();
    for (size_t i = kPrompt; i < tokens.size(); ++i) {
        EXPECT_TRUE(session->append(tokens[i]).ok());
        logits.insert(logits.end(), session->logits().begin(), session->logits().end());
    }
    return logits;
}

Result<Model> load(const std::string & path, const std::string & adapter, float scale = 1.0F) {
    ModelOptions options;
    options.lora_file = adapter;
    options.lora_scale = scale;
    return Model::load(path, options);
}

class LoraParity : public ::testing::TestWithParam<testing::ArchitectureCase> {};

TEST_P(LoraParity, LogitsEqualLibllamasWithTheSameAdapter) {
    const std::string path = scratch_file("lora-model.gguf"), adapter = scratch_file("lora.gguf");
    ASSERT_TRUE(write_random_model(GetParam().spec, path).ok());
    const auto plain = Model::load(path);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), adapter).ok());
    const auto tokens = random_tokens(kPrompt + kDecoded, plain->info().n_vocab);
    const auto without = session_logits(*plain, tokens, PrefillSchedule::kOneShot);
    for (const float scale : {1.0F, -0.5F}) {
        const auto adapted = load(path, adapter, scale);
        ASSERT_TRUE(adapted.ok()) << adapted.status().message();
        const auto reference = llama_logits(path, tokens, false, 1, adapter, scale);
        for (const PrefillSchedule schedule : {PrefillSchedule::kOneShot, PrefillSchedule::kChunked}) {
            const auto logits = session_logits(*adapted, tokens, schedule);
            ASSERT_EQ(logits.size(), reference.size());
            const auto difference = compare_logits(logits, reference, plain->info().n_vocab);
            std::cout << GetParam().name << ", scale " << scale << ": max |d|/range " << difference.max_relative << "\n";
            EXPECT_LE(difference.max_relative, 1e-3);
            EXPECT_EQ(difference.n_argmax_changed, 0);
        }
        EXPECT_GT(compare_logits(without, reference, plain->info().n_vocab).max_relative, 1e-2) << "it changes something";
    }
    const auto nothing = load(path, adapter, 0.0F);
    ASSERT_TRUE(nothing.ok());
    EXPECT_EQ(session_logits(*nothing, tokens, PrefillSchedule::kOneShot), without);
}

INSTANTIATE_TEST_SUITE_P(F32, LoraParity, ::testing::ValuesIn(testing::architecture_cases()),
                         [](const auto & test) { return test.param.name; });

// Graphs are given room for so many operations a layer: the largest layer, with everything that can be asked of it.
TEST(Lora, ADeepModelHasRoomForItInItsGraphs) {
    testing::ArchitectureCase big = testing::make_case("", [](auto & s) {
        testing::set_experts(s, "qwen3moe");
        s.n_layers = 16;
        s.n_experts_used = 8;
    });
    const std::string path = scratch_file("lora-deep.gguf"), adapter = scratch_file("lora-deep-adapter.gguf");
    ASSERT_TRUE(write_random_model(big.spec, path).ok());
    const auto plain = Model::load(path);
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_TRUE(testing::write_random_lora(file_of(*plain), adapter).ok());
    const auto adapted = load(path, adapter, 0.1F);
    ASSERT_TRUE(adapted.ok()) << adapted.status().message();
    const auto tokens = random_tokens(kPrompt + kDecoded, plain->info().n_vocab);
    const auto logits = session_logits(*adapted, tokens, PrefillSchedule::kChunked, {"expected", "h2o", "laprox"});
    const auto reference = llama_logits(path, tokens, false, 1, adapter, 0.1F);
    ASSERT_EQ(logits.size(), reference.size());
    EXPECT_LE(compare_logits(logits, reference, plain->info().n_vocab).max_relative, 1e-3);
}

class LoraEvidence : public ::testing::Test {
protected:
    void SetUp() override {
        RandomModelSpec spec = testing::tiny_spec(6, 2);
        spec.n_embd = 64;
        spec.weight_type = "q8_0";  // laid out anew where the processor offers it
        ASSERT_TRUE(write_random_model(spec, path_).ok());
        const auto plain = Model::load(path_);
        ASSERT_TRUE(plain.ok()) << plain.status().message();
        plain_.emplace(*plain);
        ASSERT_TRUE(testing::write_random_lora(file_of(*plain_), adapter_).ok());
        const auto adapted = load(path_, adapter_, 0.5F);
        ASSERT_TRUE(adapted.ok()) << adapted.status().message();
        adapted_.emplace(*adapted);
    }
    // W_O + scale · alpha / rank · b·a of a layer, in f64: [D][H·dv].
    std::vector<double> projection(int layer) const {
        const auto rows = file_of(*plain_).read_output_projection(layer);
        const auto adapter = LoraAdapter::load(adapter_, file_of(*plain_));
        EXPECT_TRUE(rows.ok() && adapter.ok());
        const LoraPair pair = (*adapter)->apply(file_of(*plain_).weights()).layers[static_cast<size_t>(layer)].lora_o;
        const auto width = static_cast<size_t>(pair.a->ne[0]), rank = static_cast<size_t>(pair.a->ne[1]);
        std::vector<double> out(rows->begin(), rows->end());
        for (size_t i = 0; i < out.size(); ++i) {
            for (size_t k = 0; k < rank; ++k) {
                out[i] += 0.5 * static_cast<double>(pair.scale) * static_cast<float *>(pair.b->data)[i / width * rank + k] *
                          static_cast<float *>(pair.a->data)[k * width + i % width];
            }
        }
        return out;
    }

    std::string path_ = scratch_file("lora-evidence.gguf"), adapter_ = scratch_file("lora-evidence-adapter.gguf");
    std::optional<Model> plain_, adapted_;
};

TEST_F(LoraEvidence, TheOutputProjectionThatIsReadBackHasTheAdapterInIt) {
    for (int layer = 0; layer < 3; ++layer) {
        const auto rows = file_of(*adapted_).read_output_projection(layer);
        ASSERT_TRUE(rows.ok()) << rows.status().message();
        const std::vector<double> expected = projection(layer);
        ASSERT_EQ(rows->size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) { ASSERT_NEAR((*rows)[i], expected[i], 1e-5) << i; }
    }
}

// What scorers with |v·W_O| work with: the factor of the session's model.
TEST_F(LoraEvidence, NormsBehindTheOutputProjectionAreThoseOfTheAdaptedOne) {
    const std::vector<double> expected = projection(1);
    const auto file = std::shared_ptr<const ModelFile>(&file_of(*adapted_), [](const ModelFile *) {});
    OutputFactors factors(file);
    const auto factor = factors.factor(1);
    ASSERT_TRUE(factor.ok()) << factor.status().message();
    for (size_t g = 0; g < 6; ++g) {
        double direct = 0, factored = 0;
        for (size_t r = 0; r < 64; ++r) {
            double sum = 0;
            for (size_t c = 0; c < 32; ++c) { sum += std::sin(static_cast<double>(c)) * expected[(r * 6 + g) * 32 + c]; }
            direct += sum * sum;
        }
        for (size_t k = 0; k < 32; ++k) {
            double sum = 0;
            for (size_t c = 0; c < 32; ++c) { sum += std::sin(static_cast<double>(c)) * (*factor)[(g * 32 + k) * 32 + c]; }
            factored += sum * sum;
        }
        EXPECT_NEAR(factored, direct, 1e-5 * direct);
    }
}

TEST_F(LoraEvidence, AHeadsShareOfTheOutputGoesThroughTheAdapterToo) {
    const auto backend = make_cpu_backend(1);
    ASSERT_TRUE(backend.ok());
    const OwnedBackend owner(*backend);
    Forward forward(std::shared_ptr<const ModelFile>(&file_of(*adapted_), [](const ModelFile *) {}), *backend);
    std::vector<float> attention(size_t{6} * 32);
    for (size_t i = 0; i < attention.size(); ++i) { attention[i] = static_cast<float>(std::cos(0.1 * static_cast<double>(i))); }
    std::vector<float> out;  // [H][D]
    ASSERT_TRUE(forward.project_heads(2, attention, out).ok());
    const std::vector<double> rows = projection(2);
    ASSERT_EQ(out.size(), size_t{6} * 64);
    for (size_t g = 0; g < 6; ++g) {
        for (size_t r = 0; r < 64; ++r) {
            double sum = 0;
            for (size_t c = 0; c < 32; ++c) { sum += rows[(r * 6 + g) * 32 + c] * attention[g * 32 + c]; }
            EXPECT_NEAR(out[g * 64 + r], sum, 0.05) << "head " << g;  // products with q8_0 round the input too
        }
    }
}

TEST_F(LoraEvidence, WhatCannotBeUsedIsRefused) {
    const auto refused = [&](const Result<Model> & model, ErrorCode code, const std::string & words) {
        EXPECT_EQ(model.status().code(), code) << model.status().message();
        EXPECT_NE(model.status().message().find(words), std::string::npos) << model.status().message();
    };
    refused(load(path_, adapter_, std::numeric_limits<float>::quiet_NaN()), ErrorCode::kInvalidArgument, "scale is nan");
    refused(load(path_, "", 2.0F), ErrorCode::kInvalidArgument, "no adapter");
    refused(load(path_, scratch_file("none.gguf")), ErrorCode::kNotFound, "adapter file");
    refused(load(path_, path_), ErrorCode::kBadFile, "not one of an adapter");
    const std::string other = scratch_file("lora-other.gguf");
    ASSERT_TRUE(write_random_model(testing::tiny_spec(2, 2), other).ok());
    refused(load(other, adapter_), ErrorCode::kInvalidArgument, "another model");
}

}  // namespace
}  // namespace pith::lora_test
