// lora_file_test.cpp - adapters: libllama computes with the file what our layers compute with it, and bad files have their
// line.
#include "model/lora_file.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <cmath>
#include <cstring>

#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/plain_attention.h"
#include "model/random/random_model.h"

namespace pith::lora_file_test {
namespace {

using testing::edit_gguf;
using testing::GgufEdit;
using testing::read_file;
using testing::TempFolder;

class LoraFile : public ::testing::Test {
protected:
    void SetUp() override {
        RandomModelSpec spec;
        spec.n_embd = 32;
        ASSERT_TRUE(write_random_model(spec, folder_.file("model.gguf")).ok());
        auto file = ModelFile::load(folder_.file("model.gguf"), {});
        ASSERT_TRUE(file.ok()) << file.status().message();
        model_ = *file;
        weights_ = model_->weights();
        ctx_ = ggml_init({size_t{1} << 22, nullptr, false});
        add_pairs(weights_);
        ASSERT_TRUE(save_lora(path(), weights_, *model_).ok());
    }
    void TearDown() override { ggml_free(ctx_); }

    // Random ones of rank 3.
    void add_pairs(Weights & weights) const {
        uint32_t state = 1;
        for (LayerWeights & layer : weights.layers) {
            for (const LoraTarget & target : lora_targets()) {
                LoraPair & pair = layer.*target.pair;
                const ggml_tensor * weight = layer.*target.weight;
                pair.a = random_matrix(weight->ne[0], 3, state);
                pair.b = random_matrix(3, weight->ne[1], state);
                pair.scale = 0.5F;
            }
        }
    }
    ggml_tensor * random_matrix(int64_t ne0, int64_t ne1, uint32_t & state) const {
        ggml_tensor * t = ggml_new_tensor_2d(ctx_, GGML_TYPE_F32, ne0, ne1);
        for (int64_t i = 0; i < ggml_nelements(t); ++i) {
            state = state * 1664525U + 1013904223U;
            static_cast<float *>(t->data)[i] = static_cast<float>(state >> 8U) / static_cast<float>(1U << 24U) - 0.5F;
        }
        return t;
    }
    std::string path() const { return folder_.file("adapter.gguf"); }
    void expect_edited(const GgufEdit & edit, ErrorCode code, const std::string & words) const {
        ASSERT_TRUE(edit_gguf(path(), folder_.file("edited.gguf"), edit));
        const Status status = LoraAdapter::load(folder_.file("edited.gguf"), *model_).status();
        EXPECT_EQ(status.code(), code) << status.message();
        EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
    }

    TempFolder folder_;
    std::shared_ptr<ModelFile> model_;
    Weights weights_;
    ggml_context * ctx_ = nullptr;
};

TEST_F(LoraFile, ComesBackAsItWasWritten) {
    const auto adapter = LoraAdapter::load(path(), *model_);
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    EXPECT_EQ((*adapter)->rank(), 3);
    EXPECT_EQ((*adapter)->n_pairs(), 8U);
    const Weights applied = (*adapter)->apply(model_->weights(), 2.0F);
    for (size_t l = 0; l < applied.layers.size(); ++l) {
        for (const LoraTarget & target : lora_targets()) {
            const LoraPair & a = weights_.layers[l].*target.pair;
            const LoraPair & b = applied.layers[l].*target.pair;
            EXPECT_FLOAT_EQ(b.scale, 2 * a.scale);
            EXPECT_EQ(std::memcmp(a.a->data, b.a->data, ggml_nbytes(a.a)), 0);
            EXPECT_EQ(std::memcmp(a.b->data, b.b->data, ggml_nbytes(a.b)), 0);
        }
    }
}

TEST_F(LoraFile, LibllamaComputesWithItWhatOurLayersCompute) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 24; ++i) { tokens.push_back((i * 37 + 5) % model_->hparams().n_vocab); }
    const auto adapter = LoraAdapter::load(path(), *model_);
    ASSERT_TRUE(adapter.ok());
    const Weights applied = (*adapter)->apply(model_->weights());
    const std::vector<float> ours = testing::plain_logits(*model_, tokens, {}, {}, 1, GGML_TYPE_F32, &applied);
    const std::vector<float> without = testing::plain_logits(*model_, tokens, {}, {}, 1);
    const std::vector<float> reference = testing::llama_logits(folder_.file("model.gguf"), tokens, false, 1, path());
    ASSERT_EQ(ours.size(), reference.size());
    EXPECT_LE(testing::compare_logits(ours, reference, model_->hparams().n_vocab).max_relative, 1e-3);
    EXPECT_GT(testing::compare_logits(without, reference, model_->hparams().n_vocab).max_relative, 1e-2)
        << "it changes something";
}

TEST_F(LoraFile, MayHaveAWholeNumberForAlpha) {
    const std::string whole = folder_.file("whole.gguf");
    ASSERT_TRUE(
        edit_gguf(path(), whole, {.metadata = [](gguf_context * g) { gguf_set_val_u32(g, "adapter.lora.alpha", 12); }}));
    const auto adapter = LoraAdapter::load(whole, *model_);
    ASSERT_TRUE(adapter.ok()) << adapter.status().message();
    EXPECT_FLOAT_EQ((*adapter)->apply(model_->weights()).layers[0].lora_q.scale, 4.0F) << "12 of a rank of 3";
}

// Converters have two names for one architecture.
TEST_F(LoraFile, FitsAModelWhoseArchitectureHasAnotherName) {
    RandomModelSpec spec;
    spec.arch = "olmo2";
    ASSERT_TRUE(write_random_model(spec, folder_.file("olmo.gguf")).ok());
    const auto model = ModelFile::load(folder_.file("olmo.gguf"), {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    Weights weights = (*model)->weights();
    add_pairs(weights);
    ASSERT_TRUE(save_lora(folder_.file("olmo-lora.gguf"), weights, **model).ok());
    const std::string named = folder_.file("named.gguf");
    ASSERT_TRUE(edit_gguf(folder_.file("olmo-lora.gguf"), named,
                          {.metadata = [](gguf_context * g) { gguf_set_val_str(g, "general.architecture", "olmo3"); }}));
    const auto adapter = LoraAdapter::load(named, **model);
    EXPECT_TRUE(adapter.ok()) << adapter.status().message();
}

TEST_F(LoraFile, WhatIsWrongIsNamed) {
    expect_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "general.type", "model"); }}, ErrorCode::kBadFile,
                  "not one of an adapter");
    expect_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "adapter.type", "ia3"); }}, ErrorCode::kBadFile,
                  "'ia3'");
    expect_edited({.metadata =
                       [](gguf_context * g) {
                           const uint32_t marks[] = {5, 6};
                           gguf_set_arr_data(g, "adapter.alora.invocation_tokens", GGUF_TYPE_UINT32, marks, 2);
                       }},
                  ErrorCode::kUnsupported, "is an activated LoRA");
    expect_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "adapter.lora.alpha", "much"); }},
                  ErrorCode::kBadFile, "adapter.lora.alpha that is no finite number");
    expect_edited({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "general.architecture", "qwen2"); }},
                  ErrorCode::kInvalidArgument, "'qwen2'");
    expect_edited({.tensor = [](ggml_tensor * t) { return std::string(t->name) != "blk.1.attn_v.weight.lora_b"; }},
                  ErrorCode::kBadFile, "half a pair for 'blk.1.attn_v.weight'");
    expect_edited({.tensor =
                       [](ggml_tensor * t) {
                           if (std::string(t->name).starts_with("blk.0.attn_q")) {
                               ggml_set_name(t, (std::string("blk.0.ffn_up") + (t->name + 12)).c_str());
                           }
                           return true;
                       }},
                  ErrorCode::kUnsupported, "blk.0.ffn_up");
    expect_edited({.tensor =
                       [](ggml_tensor * t) {
                           static_cast<float *>(t->data)[1] = INFINITY;
                           return true;
                       }},
                  ErrorCode::kBadFile, "not finite");
    RandomModelSpec wide;
    ASSERT_TRUE(write_random_model(wide, folder_.file("wide.gguf")).ok());
    const auto other = ModelFile::load(folder_.file("wide.gguf"), {});
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(LoraAdapter::load(path(), **other).status().code(), ErrorCode::kInvalidArgument);
    const std::vector<char> bytes = read_file(path());
    for (size_t keep = 0; keep < bytes.size(); keep += 611) {
        testing::write_file(folder_.file("cut.gguf"), {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(keep)});
        EXPECT_EQ(LoraAdapter::load(folder_.file("cut.gguf"), *model_).status().code(), ErrorCode::kBadFile) << keep;
    }
    EXPECT_EQ(LoraAdapter::load(folder_.file("none.gguf"), *model_).status().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace pith::lora_file_test
