// Loading: mmap and copies, repacking, split files, progress; and what the graph builders promise beside parity.
#include "model/model_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string_view>

#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/plain_attention.h"
#include "model/random/random_model.h"

namespace pith::model_file_test {
namespace {

using testing::compare_logits;
using testing::plain_logits;
using testing::TempFolder;

const std::vector<int32_t> kTokens = {3, 141, 59, 26, 5, 358, 97, 93, 238, 46};

class ModelFiles : public ::testing::Test {
protected:
    void write(const RandomModelSpec & spec) {
        const Status written = write_random_model(spec, path_);
        ASSERT_TRUE(written.ok()) << written.message();
    }
    std::shared_ptr<ModelFile> load(const ModelFileOptions & options = {}) { return load_from(path_, options); }
    static std::shared_ptr<ModelFile> load_from(const std::string & path, const ModelFileOptions & options = {}) {
        auto model = ModelFile::load(path, options);
        EXPECT_TRUE(model.ok()) << model.status().message();
        return model.ok() ? *model : nullptr;
    }

    TempFolder folder_;
    std::string path_ = folder_.file("model.gguf");
};

RandomModelSpec repackable_spec() {
    RandomModelSpec spec;
    spec.n_embd = 256;
    spec.n_heads = 8;
    spec.head_dim = 32;
    spec.n_ff = 512;
    spec.tied = true;
    spec.weight_type = "q4_0";
    return spec;
}

TEST_F(ModelFiles, MmapAndCopiesGiveTheSameLogits) {
    write({});
    const auto mapped = load();
    const auto copied = load({.use_mmap = false});
    ASSERT_TRUE(mapped != nullptr && copied != nullptr);
    EXPECT_EQ(copied->resident_copies_bytes(), copied->weight_bytes());
    EXPECT_EQ(plain_logits(*mapped, kTokens), plain_logits(*copied, kTokens));
}

TEST_F(ModelFiles, WithoutRepackingEverythingIsUsedInTheMappedFile) {
    write(repackable_spec());
    const auto model = load({.repack = false});
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->resident_copies_bytes(), 0u);
    EXPECT_EQ(model->weights().output, model->weights().token_embd);
}

TEST_F(ModelFiles, RepackedWeightsGiveTheSameLogitsUpToTheRoundingOfActivations) {
    write(repackable_spec());
    const auto plain = load({.repack = false});
    const auto repacked = load();
    ASSERT_TRUE(plain != nullptr && repacked != nullptr);
    if (repacked->resident_copies_bytes() == 0) { GTEST_SKIP() << "this CPU repacks no q4_0 weights"; }
    EXPECT_NE(repacked->weights().output, repacked->weights().token_embd);  // tied: a plain and a repacked copy
    EXPECT_LE(
        compare_logits(plain_logits(*repacked, kTokens), plain_logits(*plain, kTokens), plain->hparams().n_vocab).max_relative,
        5e-2);
}

TEST_F(ModelFiles, ReportsWhatTheFileSays) {
    write(repackable_spec());
    const auto model = load();
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->path(), path_);
    EXPECT_EQ(model->weight_type_name(), "q4_0");
    EXPECT_EQ(model->hparams().arch_name, "llama");
    EXPECT_EQ(model->hparams().name, "random");
    EXPECT_EQ(model->hparams().n_layers, 2);
    const int64_t d = 256;
    const int64_t per_layer = 2 * d + d * 256 + 2 * d * 2 * 32 + 256 * d + 3 * d * 512;
    EXPECT_EQ(model->n_params(), 512 * d + d + 2 * per_layer);
    EXPECT_LT(model->weight_bytes(), std::filesystem::file_size(path_));
    EXPECT_EQ(model->weight_bytes_per_token(), model->weight_bytes()) << "the embedding is the output matrix, too";
}

TEST_F(ModelFiles, CountWhatATokenReads) {
    RandomModelSpec spec;  // f32, its own output matrix
    write(spec);
    auto model = load();
    ASSERT_NE(model, nullptr);
    const size_t embedding = sizeof(float) * 512 * 64;
    EXPECT_EQ(model->weight_bytes_per_token(), model->weight_bytes() - embedding);
    spec.n_experts = 8;
    spec.n_experts_used = 2;
    spec.n_ff_expert = 96;
    write(spec);
    model = load();
    ASSERT_NE(model, nullptr);
    const size_t experts = sizeof(float) * 2 * 3 * 64 * 96 * 8;  // of both layers
    EXPECT_EQ(model->weight_bytes_per_token(), model->weight_bytes() - embedding - experts / 8 * 6);
}

TEST_F(ModelFiles, SplitFilesLoadFromAnyPart) {
    write(repackable_spec());
    RandomModelSpec split = repackable_spec();
    split.n_splits = 3;
    const std::string path = folder_.file("split.gguf");
    ASSERT_TRUE(write_random_model(split, path).ok());
    const std::vector<std::string> parts = random_model_files(split, path);
    ASSERT_EQ(parts.size(), 3u);

    const auto whole = load();
    ASSERT_NE(whole, nullptr);
    for (const std::string & part : parts) {
        for (const bool use_mmap : {true, false}) {
            const auto model = load_from(part, {.use_mmap = use_mmap});
            ASSERT_NE(model, nullptr);
            EXPECT_EQ(model->path(), parts[0]);
            EXPECT_EQ(model->n_params(), whole->n_params());
            EXPECT_EQ(plain_logits(*model, kTokens), plain_logits(*whole, kTokens));
        }
    }
}

TEST_F(ModelFiles, ACheckRefusesWhatLoadingWouldAndPlacesNothing) {
    write(repackable_spec());
    const auto loaded = load();
    ASSERT_NE(loaded, nullptr);
    const auto checked = ModelFile::check(path_);
    ASSERT_TRUE(checked.ok()) << checked.status().message();
    EXPECT_EQ((*checked)->n_params(), loaded->n_params());
    EXPECT_EQ((*checked)->weight_bytes(), loaded->weight_bytes());
    EXPECT_EQ((*checked)->weight_type_name(), loaded->weight_type_name());
    EXPECT_EQ((*checked)->hparams().n_ctx_train, loaded->hparams().n_ctx_train);
    EXPECT_EQ((*checked)->resident_copies_bytes(), 0U);
    EXPECT_EQ((*checked)->weights().token_embd, nullptr);
    const std::string torn = folder_.file("torn.gguf");
    ASSERT_TRUE(testing::edit_gguf(path_, torn, {.metadata = {}, .tensor = [](ggml_tensor * tensor) {
                                                     return std::string_view(tensor->name) != "output_norm.weight";
                                                 }}));
    for (const std::string & path : {torn, folder_.file("nowhere.gguf")}) {
        EXPECT_EQ(ModelFile::check(path).status().message(), ModelFile::load(path, {}).status().message());
        EXPECT_FALSE(ModelFile::check(path).ok());
    }
}

TEST_F(ModelFiles, AMissingOrForeignPartIsNamed) {
    RandomModelSpec split = repackable_spec();
    split.n_splits = 3;
    const std::string path = folder_.file("split.gguf");
    ASSERT_TRUE(write_random_model(split, path).ok());
    const std::vector<std::string> parts = random_model_files(split, path);

    const std::string elsewhere = folder_.file("renamed.gguf");
    std::filesystem::copy_file(parts[0], elsewhere);
    const auto renamed = ModelFile::load(elsewhere, {});
    ASSERT_FALSE(renamed.ok());
    EXPECT_EQ(renamed.status().code(), ErrorCode::kBadFile);
    EXPECT_NE(renamed.status().message().find("-00001-of-00003.gguf"), std::string::npos) << renamed.status().message();

    std::filesystem::copy_file(parts[1], parts[2], std::filesystem::copy_options::overwrite_existing);
    const auto swapped = ModelFile::load(parts[0], {});
    ASSERT_FALSE(swapped.ok());
    EXPECT_EQ(swapped.status().code(), ErrorCode::kBadFile);
    EXPECT_NE(swapped.status().message().find("should be part 3 of 3"), std::string::npos) << swapped.status().message();

    std::filesystem::remove(parts[2]);
    const auto gone = ModelFile::load(parts[0], {});
    ASSERT_FALSE(gone.ok());
    EXPECT_EQ(gone.status().code(), ErrorCode::kNotFound);
    EXPECT_NE(gone.status().message().find(parts[2]), std::string::npos) << gone.status().message();
}

TEST_F(ModelFiles, ProgressRisesToOneAndCanCancel) {
    write({});
    double last = 0.0;
    ASSERT_NE(load({.use_mmap = false,
                    .progress =
                        [&](double fraction) {
                            EXPECT_GE(fraction, last);
                            last = fraction;
                            return true;
                        }}),
              nullptr);
    EXPECT_EQ(last, 1.0);
    for (const bool use_mmap : {true, false}) {
        const auto cancelled = ModelFile::load(path_, {.use_mmap = use_mmap, .progress = [](double) { return false; }});
        ASSERT_FALSE(cancelled.ok());
        EXPECT_EQ(cancelled.status().code(), ErrorCode::kCancelled);
    }
}

TEST_F(ModelFiles, KeepRowsGivesTheLogitsOfThesePositionsOnly) {
    for (const bool experts : {false, true}) {
        RandomModelSpec spec;
        if (experts) { spec.n_experts = 4, spec.n_experts_used = 2, spec.n_ff_expert = 64; }
        write(spec);
        const auto model = load();
        ASSERT_NE(model, nullptr);
        const size_t n_vocab = static_cast<size_t>(model->hparams().n_vocab);
        const std::vector<float> all = plain_logits(*model, kTokens);
        std::vector<float> expected;
        for (const size_t row : {2, 9}) {
            const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * n_vocab);
            expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(n_vocab));
        }
        const std::vector<float> kept = plain_logits(*model, kTokens, {}, {2, 9});
        ASSERT_EQ(kept.size(), expected.size());
        EXPECT_LE(compare_logits(kept, expected, model->hparams().n_vocab).max_relative, 1e-5);
    }
}

TEST_F(ModelFiles, TwoThreadsGiveOneThreadsLogits) {
    write({});
    const auto model = load();
    ASSERT_NE(model, nullptr);
    const std::vector<float> one = plain_logits(*model, kTokens, {}, {}, 1);
    EXPECT_LE(compare_logits(plain_logits(*model, kTokens, {}, {}, 2), one, model->hparams().n_vocab).max_relative, 1e-5);
}

TEST_F(ModelFiles, AMaskedKeyHasNoInfluence) {
    write({});
    const auto model = load();
    ASSERT_NE(model, nullptr);
    std::vector<int32_t> other = kTokens;
    other[4] = 77;
    // Position 4 is hidden from everyone else, in all layers and heads: its token must not matter to them.
    const auto hide = [](int, int, int query, int key) { return key == 4 && query != 4 ? -INFINITY : 0.0F; };
    std::vector<float> a = plain_logits(*model, kTokens, hide);
    std::vector<float> b = plain_logits(*model, other, hide);
    const auto n_vocab = static_cast<std::ptrdiff_t>(model->hparams().n_vocab);
    a.erase(a.begin() + 4 * n_vocab, a.begin() + 5 * n_vocab);
    b.erase(b.begin() + 4 * n_vocab, b.begin() + 5 * n_vocab);
    EXPECT_EQ(a, b);
    EXPECT_NE(plain_logits(*model, kTokens), plain_logits(*model, kTokens, hide));
}

}  // namespace
}  // namespace pith::model_file_test
