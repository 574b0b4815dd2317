// hub_files_test.cpp - what published files hold beside what their architecture needs: read, or left unread, never in the way.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/model_file.h"
#include "model/plain_attention.h"
#include "model/random/random_model.h"
#include "pith/log.h"

namespace pith::hub_files_test {
namespace {

using testing::compare_logits;
using testing::edit_gguf;
using testing::llama_logits;
using testing::plain_logits;
using testing::TempFolder;

const std::vector<int32_t> kTokens = {3, 141, 59, 26, 5, 358, 97, 93, 238, 46, 11, 200};

class HubFiles : public ::testing::Test {
protected:
    HubFiles() : context_(ggml_init({size_t{64} << 20U, nullptr, false}), &ggml_free) {}

    void write(const RandomModelSpec & spec) {
        const Status written = write_random_model(spec, plain_);
        ASSERT_TRUE(written.ok()) << written.message();
    }
    void edit(const testing::GgufEdit & edit) { ASSERT_TRUE(edit_gguf(plain_, edited_, edit)); }
    static std::shared_ptr<ModelFile> load(const std::string & path, const ModelFileOptions & options = {}) {
        auto model = ModelFile::load(path, options);
        EXPECT_TRUE(model.ok()) << model.status().message();
        return model.ok() ? *model : nullptr;
    }
    std::vector<float> logits(const std::string & path) {
        const auto model = load(path);
        return model == nullptr ? std::vector<float>{} : plain_logits(*model, kTokens);
    }
    ggml_tensor * made(const std::string & name, ggml_type type, int64_t ne0, int64_t ne1 = 1) {
        ggml_tensor * tensor =
            ne1 == 1 ? ggml_new_tensor_1d(context_.get(), type, ne0) : ggml_new_tensor_2d(context_.get(), type, ne0, ne1);
        std::memset(tensor->data, 0, ggml_nbytes(tensor));
        ggml_set_name(tensor, name.c_str());
        return tensor;
    }
    // A vector of numbers around `mean`, no two alike.
    ggml_tensor * made_vector(const std::string & name, int64_t n, float mean) {
        ggml_tensor * tensor = made(name, GGML_TYPE_F32, n);
        for (int64_t i = 0; i < n; ++i) {
            static_cast<float *>(tensor->data)[i] = mean + 0.3F * std::sin(static_cast<float>(i * 7 + 1));
        }
        return tensor;
    }
    void expect_libllamas(const std::string & path) {
        const std::vector<float> reference = llama_logits(path, kTokens);
        const std::vector<float> got = logits(path);
        ASSERT_FALSE(reference.empty());
        ASSERT_EQ(got.size(), reference.size());
        EXPECT_LE(compare_logits(got, reference, static_cast<int>(got.size() / kTokens.size())).max_relative, 1e-3);
    }

    TempFolder folder_;
    std::string plain_ = folder_.file("plain.gguf");
    std::string edited_ = folder_.file("edited.gguf");
    std::unique_ptr<ggml_context, decltype(&ggml_free)> context_;
};

TEST_F(HubFiles, TensorsForImagesAndSoundAreLeftUnreadAndSaid) {
    write({});
    edit({.added = {made("v.blk.0.attn_q.weight", GGML_TYPE_F16, 32, 32), made("mm.0.weight", GGML_TYPE_F32, 32, 64),
                    made("a.conv1.bias", GGML_TYPE_F32, 16)}});
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel, std::string_view line) {
        if (line.find("left unread") != std::string_view::npos) { lines.emplace_back(line); }
    });
    const auto model = load(edited_);
    set_log_sink({});
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(plain_logits(*model, kTokens), logits(plain_));
    EXPECT_EQ(model->n_params(), load(plain_)->n_params());
    EXPECT_EQ(model->weight_bytes(), load(plain_)->weight_bytes());
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("3 tensors for images and sound and 0 that"), std::string::npos) << lines[0];
}

// Blocks that predict further tokens are counted among the layers, and behind them.
TEST_F(HubFiles, BlocksThatPredictFurtherTokensAreNotRun) {
    RandomModelSpec spec;
    write(spec);
    const std::vector<float> two_layers = logits(plain_);
    spec.n_layers = 3;  // weights are drawn by name: the first two layers are those of before
    write(spec);
    edit({.metadata = [](gguf_context * g) { gguf_set_val_u32(g, "llama.nextn_predict_layers", 1); },
          .added = {made("blk.2.nextn.eh_proj.weight", GGML_TYPE_F32, 128, 64)}});
    const auto model = load(edited_);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->hparams().n_layers, 2);
    EXPECT_EQ(plain_logits(*model, kTokens), two_layers);
    EXPECT_NE(logits(plain_), two_layers);
}

TEST_F(HubFiles, ALayerBehindTheLastIsRefusedByName) {
    RandomModelSpec spec;
    spec.n_layers = 3;
    write(spec);
    edit({.metadata = [](gguf_context * g) { gguf_set_val_u32(g, "llama.block_count", 2); }});
    const auto model = ModelFile::load(edited_, {});
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), ErrorCode::kUnsupported);
    EXPECT_NE(model.status().message().find("'blk.2."), std::string::npos) << model.status().message();
}

TEST_F(HubFiles, FeedForwardBiasesAreAdded) {
    write({});
    std::vector<const ggml_tensor *> biases;
    for (const char * layer : {"blk.0.", "blk.1."}) {
        biases.push_back(made_vector(std::string(layer) + "ffn_gate.bias", 128, 0.1F));
        biases.push_back(made_vector(std::string(layer) + "ffn_up.bias", 128, -0.2F));
        biases.push_back(made_vector(std::string(layer) + "ffn_down.bias", 64, 0.3F));
    }
    edit({.added = biases});
    EXPECT_NE(logits(edited_), logits(plain_));
    expect_libllamas(edited_);
}

// The rows of queries, keys and values in one tensor: the model is the same, matrix by matrix.
TEST_F(HubFiles, FusedQueriesKeysAndValuesAreTakenApart) {
    for (const char * arch : {"llama", "qwen2"}) {
        for (const char * type : {"f32", "q8_0"}) {
            SCOPED_TRACE(std::string(arch) + " " + type);
            RandomModelSpec spec;
            spec.arch = arch;
            spec.weight_type = type;
            write(spec);
            std::map<std::string, ggml_tensor *> fused;  // filled in the order of the file: q, k, v
            std::map<std::string, size_t> n_filled;
            const auto join = [&](ggml_tensor * tensor) {
                const std::string name = tensor->name;
                const size_t at = name.find(".attn_");
                if (at == std::string::npos || name.find("_norm") != std::string::npos ||
                    name.find("output") != std::string::npos) {
                    return true;
                }
                const bool is_bias = name.ends_with(".bias");
                const std::string joined = name.substr(0, at) + ".attn_qkv" + (is_bias ? ".bias" : ".weight");
                ggml_tensor *& whole = fused[joined];
                if (whole == nullptr) {
                    whole = is_bias ? made(joined, tensor->type, 128) : made(joined, tensor->type, tensor->ne[0], 128);
                }
                std::memcpy(static_cast<char *>(whole->data) + n_filled[joined], tensor->data, ggml_nbytes(tensor));
                n_filled[joined] += ggml_nbytes(tensor);
                return false;
            };
            edit({.tensor = join});  // the first time to fill them, the second to write them
            std::vector<const ggml_tensor *> all;
            for (const auto & [name, tensor] : fused) { all.push_back(tensor); }
            ASSERT_EQ(all.size(), std::string(arch) == "qwen2" ? 4U : 2U);
            n_filled.clear();
            edit({.tensor = join, .added = all});
            const auto model = load(edited_);
            const auto apart = load(plain_);
            ASSERT_TRUE(model != nullptr && apart != nullptr);
            EXPECT_EQ(model->n_params(), apart->n_params());
            EXPECT_EQ(model->weight_bytes(), apart->weight_bytes());
            EXPECT_EQ(plain_logits(*model, kTokens), plain_logits(*apart, kTokens));
            const auto copied = load(edited_, {.use_mmap = false});
            ASSERT_NE(copied, nullptr);
            EXPECT_EQ(plain_logits(*copied, kTokens), plain_logits(*apart, kTokens));
            EXPECT_EQ(*model->read_output_projection(1), *apart->read_output_projection(1));
            expect_libllamas(edited_);
        }
    }
}

TEST_F(HubFiles, MatricesBothApartAndFusedAreRefused) {
    write({});
    edit({.added = {made("blk.0.attn_qkv.weight", GGML_TYPE_F32, 64, 128)}});
    const auto model = ModelFile::load(edited_, {});
    ASSERT_FALSE(model.ok());
    EXPECT_NE(model.status().message().find("'blk.0.attn_qkv.weight' has no place"), std::string::npos)
        << model.status().message();
}

// A factor of 4 for every frequency is what linear scaling by 4 does.
TEST_F(HubFiles, FrequencyFactorsAreReadWithEveryArchitecture) {
    for (const char * arch : {"qwen2", "qwen3"}) {
        RandomModelSpec spec;
        spec.arch = arch;
        spec.rope_scaling = RopeScaling::kLinear;
        spec.rope_factor = 4.0F;
        write(spec);
        const std::vector<float> scaled = logits(plain_);
        spec.rope_scaling = RopeScaling::kNone;
        write(spec);
        ggml_tensor * factors = made("rope_freqs.weight", GGML_TYPE_F32, 8);
        std::fill_n(static_cast<float *>(factors->data), 8, 4.0F);
        edit({.added = {factors}});
        EXPECT_NE(logits(plain_), scaled);
        EXPECT_LE(compare_logits(logits(edited_), scaled, 512).max_relative, 1e-5) << arch;
    }
}

TEST_F(HubFiles, NormsAndBiasesMayBeHalfPrecision) {
    for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
        RandomModelSpec spec;
        spec.arch = "qwen2";
        write(spec);
        const auto * traits = ggml_get_type_traits(type);
        std::vector<const ggml_tensor *> halves;
        // Rounds the vectors to what half precision holds, and keeps them so.
        const auto round = [&](ggml_tensor * tensor) {
            if (ggml_n_dims(tensor) > 1) { return true; }
            ggml_tensor * half = made(tensor->name, type, tensor->ne[0]);
            traits->from_float_ref(static_cast<const float *>(tensor->data), half->data, tensor->ne[0]);
            traits->to_float(half->data, static_cast<float *>(tensor->data), tensor->ne[0]);
            halves.push_back(half);
            return true;
        };
        const std::string rounded = folder_.file("rounded.gguf");
        ASSERT_TRUE(edit_gguf(plain_, rounded, {.tensor = round}));
        edit({.tensor = [](ggml_tensor * tensor) { return ggml_n_dims(tensor) > 1; }, .added = halves});
        const auto model = load(edited_);
        ASSERT_NE(model, nullptr);
        EXPECT_GT(model->resident_copies_bytes(), 0U);
        EXPECT_EQ(plain_logits(*model, kTokens), logits(rounded));
    }
}

}  // namespace
}  // namespace pith::hub_files_test
