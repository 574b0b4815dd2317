// Logits of Pith's layer graphs against libllama's, at every position, for every architecture and weight type.
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "model/architectures.h"
#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/plain_attention.h"
#include "model/random/random_model.h"

namespace pith::parity_test {
namespace {

using Case = testing::ArchitectureCase;
using testing::compare_logits;
using testing::llama_logits;
using testing::LogitDifference;
using testing::make_case;
using testing::plain_logits;
using testing::set_experts;
using testing::set_scaling;
using testing::TempFolder;

constexpr double kF32Bound = 1e-3;
// Both sides multiply the same quantised weights with the same kernels, but first round their activations to 8 bits (or f16):
// a last-bit difference in f32 can move a rounding by one step of 1/127 of a block's largest value, and the layers after it see
// that.
constexpr double kQuantisedBound = 5e-2;

std::vector<int32_t> random_tokens(int n, int n_vocab, unsigned seed = 7) {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t & token : tokens) { token = static_cast<int32_t>(random() % static_cast<unsigned>(n_vocab)); }
    return tokens;
}

std::shared_ptr<ModelFile> load(const std::string & path, const ModelFileOptions & options = {}) {
    auto model = ModelFile::load(path, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *model : nullptr;
}

class Parity : public ::testing::TestWithParam<Case> {
protected:
    TempFolder folder_;
    std::string path_ = folder_.file("model.gguf");
};

class ArchitectureParity : public Parity {};

TEST_P(ArchitectureParity, LogitsEqualLibllamasAtEveryPosition) {
    const Status written = write_random_model(GetParam().spec, path_);
    ASSERT_TRUE(written.ok()) << written.message();
    const auto model = load(path_);
    ASSERT_NE(model, nullptr);
    const std::vector<int32_t> tokens = random_tokens(48, model->hparams().n_vocab);
    const std::vector<float> logits = plain_logits(*model, tokens);

    for (const bool one_at_a_time : {false, true}) {
        const std::vector<float> reference = llama_logits(path_, tokens, one_at_a_time);
        ASSERT_FALSE(reference.empty());
        ASSERT_EQ(logits.size(), reference.size());
        const LogitDifference difference = compare_logits(logits, reference, model->hparams().n_vocab);
        RecordProperty(one_at_a_time ? "decode" : "prefill", std::to_string(difference.max_relative));
        std::cout << GetParam().name << (one_at_a_time ? " decode" : " prefill") << ": max |d|/range "
                  << difference.max_relative << "\n";
        EXPECT_LE(difference.max_relative, kF32Bound);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

TEST_P(ArchitectureParity, OneTokenAloneGivesTheFirstPositionsLogits) {
    ASSERT_TRUE(write_random_model(GetParam().spec, path_).ok());
    const auto model = load(path_);
    ASSERT_NE(model, nullptr);
    const std::vector<int32_t> tokens = random_tokens(5, model->hparams().n_vocab);
    const std::vector<float> all = plain_logits(*model, tokens);
    const std::vector<float> first = plain_logits(*model, {tokens[0]});
    ASSERT_EQ(first.size() * 5, all.size());
    const std::vector<float> expected(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first.size()));
    EXPECT_LE(compare_logits(first, expected, model->hparams().n_vocab).max_relative, 1e-5);
}

// Keys that the writer of random models does not know.
TEST(RopeKeys, AttentionFactorAndTheOldScaleKeyAreAppliedAsLibllamaDoes) {
    struct Change {
        const char * name;
        RopeScaling scaling;
        std::function<void(gguf_context *)> metadata;
    };
    const auto set_float = [](const char * key, float value) {
        return [=](gguf_context * g) { gguf_set_val_f32(g, key, value); };
    };
    const std::vector<Change> changes = {
        {"attn_factor with yarn", RopeScaling::kYarn, set_float("llama.rope.scaling.attn_factor", 0.7F)},
        {"attn_factor alone", RopeScaling::kNone, set_float("llama.rope.scaling.attn_factor", 0.7F)},
        {"old linear key", RopeScaling::kNone, set_float("llama.rope.scale_linear", 3.0F)},
        {"type none ignores the factor", RopeScaling::kLinear,
         [](gguf_context * g) { gguf_set_val_str(g, "llama.rope.scaling.type", "none"); }},
        {"yarn that shrinks", RopeScaling::kYarn, set_float("llama.rope.scaling.factor", 0.5F)},
        {"original context", RopeScaling::kYarn,
         [](gguf_context * g) { gguf_set_val_u32(g, "llama.rope.scaling.original_context_length", 32); }},
    };
    for (const Change & change : changes) {
        SCOPED_TRACE(change.name);
        const TempFolder folder;
        RandomModelSpec spec;
        set_scaling(spec, change.scaling, change.scaling == RopeScaling::kNone ? 1.0F : 4.0F);
        ASSERT_TRUE(write_random_model(spec, folder.file("m.gguf")).ok());
        ASSERT_TRUE(testing::edit_gguf(folder.file("m.gguf"), folder.file("e.gguf"), {.metadata = change.metadata}));
        const auto model = load(folder.file("e.gguf"));
        ASSERT_NE(model, nullptr);
        const std::vector<int32_t> tokens = random_tokens(24, model->hparams().n_vocab);
        const std::vector<float> reference = llama_logits(folder.file("e.gguf"), tokens);
        ASSERT_FALSE(reference.empty());
        EXPECT_LE(compare_logits(plain_logits(*model, tokens), reference, model->hparams().n_vocab).max_relative, kF32Bound);
    }
}

INSTANTIATE_TEST_SUITE_P(F32, ArchitectureParity, ::testing::ValuesIn(testing::architecture_cases()),
                         [](const auto & instance) { return instance.param.name; });

// Widths are multiples of 256, so that every type keeps its blocks.
std::vector<Case> weight_types() {
    std::vector<Case> cases;
    for (const char * type : {"f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
                              "iq4_nl", "iq4_xs", "mxfp4", "tq1_0", "tq2_0"}) {
        const auto widen = [type](RandomModelSpec & s) {
            s.n_embd = 256;
            s.n_heads = 8;
            s.n_kv_heads = 2;
            s.head_dim = 32;
            s.n_ff = 512;
            s.n_ff_expert = 256;
            s.tied = true;
            s.weight_type = type;
        };
        cases.push_back(make_case(std::string("llama_") + type, widen));
        cases.push_back(
            make_case(std::string("qwen3moe_") + type, [&](RandomModelSpec & s) { set_experts(s, "qwen3moe"), widen(s); }));
    }
    return cases;
}

class WeightTypeParity : public Parity {};

TEST_P(WeightTypeParity, LogitsStayNearLibllamas) {
    const Status written = write_random_model(GetParam().spec, path_);
    ASSERT_TRUE(written.ok()) << written.message();
    const auto model = load(path_);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->weight_type_name(), GetParam().spec.weight_type);
    const std::vector<int32_t> tokens = random_tokens(24, model->hparams().n_vocab);
    const std::vector<float> reference = llama_logits(path_, tokens);
    ASSERT_FALSE(reference.empty());
    for (const bool own : {false, true}) {
        const std::vector<float> logits =
            plain_logits(*model, tokens, {}, {}, 2, GGML_TYPE_F32, nullptr, nullptr, nullptr, own ? kCpuMulMat : kGgmlMulMat);
        ASSERT_EQ(logits.size(), reference.size());
        const LogitDifference difference = compare_logits(logits, reference, model->hparams().n_vocab, 2 * kQuantisedBound);
        RecordProperty(own ? "own_max_relative" : "max_relative", std::to_string(difference.max_relative));
        std::cout << GetParam().name << (own ? ", own products" : "") << ": max |d|/range " << difference.max_relative
                  << ", copied " << model->resident_copies_bytes() << " of " << model->weight_bytes() << " bytes\n";
        EXPECT_LE(difference.max_relative, kQuantisedBound) << own;
        EXPECT_EQ(difference.n_argmax_changed, 0) << own;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, WeightTypeParity, ::testing::ValuesIn(weight_types()),
                         [](const auto & instance) { return instance.param.name; });

}  // namespace
}  // namespace pith::parity_test
