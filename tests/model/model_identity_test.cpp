// model_identity_test.cpp - what is the same model, what is another, and which item says so.
#include "model/model_identity.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "file/mapped_file.h"
#include "model/adapted_model.h"
#include "model/fingerprint.h"
#include "model/gguf_edit.h"
#include "model/lora_file.h"
#include "model/model_file.h"
#include "model/random/random_model.h"
#include "model/random_lora.h"

namespace pith::model_identity_test {
namespace {

using testing::edit_gguf;
using testing::TempFolder;

class Identity : public ::testing::Test {
protected:
    std::shared_ptr<const ModelFile> write(const std::string & name, const RandomModelSpec & spec,
                                           const ModelFileOptions & options = {}) {
        const std::string path = folder_.file(name);
        EXPECT_TRUE(write_random_model(spec, path).ok());
        return load(random_model_files(spec, path).front(), options);
    }
    static std::shared_ptr<const ModelFile> load(const std::string & path, const ModelFileOptions & options = {}) {
        auto file = ModelFile::load(path, options);
        EXPECT_TRUE(file.ok()) << file.status().message();
        return *file;
    }
    // "": they are the same.
    static std::string differs(const ModelFile & a, const ModelFile & b) {
        const auto difference = first_difference(a.identity(), b.identity());
        return difference ? difference->item : "";
    }

    TempFolder folder_;
    RandomModelSpec spec_;
};

TEST_F(Identity, IsTheModelsHoweverItsFileIsCalledSplitOrLoaded) {
    const auto model = write("a.gguf", spec_);
    RandomModelSpec split = spec_;
    split.n_splits = 3;
    EXPECT_EQ(differs(*model, *write("b.gguf", split)), "");
    EXPECT_EQ(differs(*model, *load(folder_.file("a.gguf"), {.use_mmap = false, .repack = false})), "");
    const auto rename = [](gguf_context * gguf) { gguf_set_val_str(gguf, "general.name", "another name"); };
    ASSERT_TRUE(edit_gguf(folder_.file("a.gguf"), folder_.file("c.gguf"), {rename, {}}));
    EXPECT_EQ(differs(*model, *load(folder_.file("c.gguf"))), "");
}

TEST_F(Identity, AnotherQuantisationIsAnotherModelThoughItHasTheSameFingerprint) {
    spec_.n_embd = 256;
    spec_.head_dim = 64;
    spec_.n_ff = 512;
    spec_.weight_type = "q4_0";
    const auto small = write("q4.gguf", spec_);
    spec_.weight_type = "q8_0";
    const auto large = write("q8.gguf", spec_);
    EXPECT_EQ(fingerprint_of(*small), fingerprint_of(*large));
    EXPECT_EQ(differs(*small, *large), "tensor table");
}

TEST_F(Identity, NamesWhatDiffers) {
    const auto model = write("a.gguf", spec_);
    const std::string path = folder_.file("b.gguf");
    const auto with = [&](const testing::GgufEdit & edit) {
        EXPECT_TRUE(edit_gguf(folder_.file("a.gguf"), path, edit));
        return load(path);
    };
    EXPECT_EQ(differs(*model, *with({[](gguf_context * g) { gguf_set_val_f32(g, "llama.rope.freq_base", 20000.0F); }, {}})),
              "metadata");
    // One number of one tensor, whichever it is.
    const auto nudge = [](const char * name) {
        return [name](ggml_tensor * tensor) {
            if (std::strcmp(tensor->name, name) == 0) { static_cast<float *>(tensor->data)[5] += 1e-6F; }
            return true;
        };
    };
    for (const char * name : {"output_norm.weight", "blk.1.attn_norm.weight", "blk.0.ffn_down.weight"}) {
        EXPECT_EQ(differs(*model, *with({{}, nudge(name)})), "weights") << name;
    }
    RandomModelSpec other = spec_;
    other.arch = "qwen2";
    EXPECT_EQ(differs(*model, *write("d.gguf", other)), "architecture");
}

TEST_F(Identity, AnAdapterIsAnItemWithItsScale) {
    const auto model = write("a.gguf", spec_);
    const std::string paths[] = {folder_.file("one.lora"), folder_.file("two.lora")};
    ASSERT_TRUE(testing::write_random_lora(*model, paths[0]).ok());
    ASSERT_TRUE(testing::write_random_lora(*model, paths[1], 3, 6).ok());
    const auto adapted = [&](const std::string & path, float scale) {
        auto adapter = LoraAdapter::load(path, *model);
        EXPECT_TRUE(adapter.ok()) << adapter.status().message();
        return adapt_model(model, *adapter, scale);
    };
    const auto one = adapted(paths[0], 1.0F);
    EXPECT_EQ(differs(*model, *one), "LoRA adapter");
    EXPECT_EQ(differs(*one, *adapted(paths[1], 1.0F)), "LoRA adapter");
    EXPECT_EQ(differs(*one, *adapted(paths[0], 0.5F)), "LoRA adapter");
    EXPECT_EQ(differs(*one, *adapted(paths[0], 1.0F)), "");
    EXPECT_EQ(differs(*model, *adapted(paths[0], 0.0F)), "");
    EXPECT_EQ(one->adapter().path, paths[0]);
}

// Of large files not all is read: a block at each end of a tensor, and many in between.
TEST_F(Identity, LargeTensorsAreSampledFromTheFirstByteToTheLast) {
    GgufHeader header;
    GgufTensor tensor;
    tensor.name = "large";
    tensor.size = 3 * kSampledBlocks * kSampledBlockBytes + 100;
    header.tensors.push_back(tensor);
    std::vector<uint8_t> bytes(tensor.size, 1);
    const auto hash = [&](size_t sampled_above) {
        const IdentitySource source{&header, bytes};
        return contents_hash({&source, 1}, sampled_above);
    };
    const std::string sampled = hash(0);
    const std::string whole = hash(kSampledAboveBytes);
    EXPECT_NE(sampled, whole);
    size_t n_seen = 0;
    for (size_t at = 0; at < bytes.size(); at += kSampledBlockBytes / 2) {
        bytes[at] = 2;
        EXPECT_NE(hash(kSampledAboveBytes), whole) << at;
        n_seen += hash(0) != sampled ? 1 : 0;
        bytes[at] = 1;
    }
    EXPECT_GT(n_seen, kSampledBlocks);
    for (const size_t at : {size_t{0}, bytes.size() - 1}) {
        bytes[at] = 2;
        EXPECT_NE(hash(0), sampled) << at;
        bytes[at] = 1;
    }
    // A file that is read piece by piece has the hashes of its bytes in memory.
    bytes[bytes.size() / 2] = 2;
    testing::write_file(folder_.file("bytes"), {bytes.begin(), bytes.end()});
    const auto file = MappedFile::open(folder_.file("bytes"), "model", /*keeps_open=*/true);
    ASSERT_TRUE(file.ok());
    const IdentitySource in_file{&header, file->bytes(), &*file};
    for (const size_t sampled_above : {size_t{0}, kSampledAboveBytes}) {
        EXPECT_EQ(contents_hash({&in_file, 1}, sampled_above), hash(sampled_above));
    }
}

}  // namespace
}  // namespace pith::model_identity_test
