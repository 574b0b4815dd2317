// Files that are not what they should be: each gives one error line that names what is wrong, and never ends the process.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "file/gguf_header.h"
#include "model/gguf_edit.h"
#include "model/model_file.h"
#include "model/random/random_model.h"

namespace pith::bad_file_test {
namespace {

using testing::edit_gguf;
using testing::GgufEdit;
using testing::read_file;
using testing::TempFolder;
using testing::write_file;

class BadFiles : public ::testing::Test {
protected:
    void SetUp() override {
        RandomModelSpec spec;
        spec.n_embd = 32;
        spec.n_ff = 64;
        spec.head_dim = 8;
        spec.n_vocab = 384;
        const Status written = write_random_model(spec, good_);
        ASSERT_TRUE(written.ok()) << written.message();
    }

    // Loads, and expects the code and every one of the texts in the message.
    void expect_error(const std::string & path, ErrorCode code, const std::vector<std::string> & texts) {
        const auto model = ModelFile::load(path, {});
        ASSERT_FALSE(model.ok()) << "loaded, but should name: " << texts.front();
        EXPECT_EQ(to_string(model.status().code()), to_string(code)) << model.status().message();
        for (const std::string & text : texts) {
            EXPECT_NE(model.status().message().find(text), std::string::npos)
                << "'" << text << "' is not in: " << model.status().message();
        }
        EXPECT_EQ(model.status().message().find('\n'), std::string::npos) << model.status().message();
    }
    void expect_error_after(const GgufEdit & edit, ErrorCode code, const std::vector<std::string> & texts) {
        ASSERT_TRUE(edit_gguf(good_, bad_, edit));
        expect_error(bad_, code, texts);
    }

    TempFolder folder_;
    std::string good_ = folder_.file("good.gguf");
    std::string bad_ = folder_.file("bad.gguf");
};

TEST_F(BadFiles, APathThatDoesNotExistIsNotFound) {
    expect_error(folder_.file("none.gguf"), ErrorCode::kNotFound, {"none.gguf", "No such file"});
    expect_error(good_ + "/inside.gguf", ErrorCode::kNotFound, {"inside.gguf"});
}

TEST_F(BadFiles, FoldersEmptyFilesAndTextAreRefused) {
    expect_error(folder_.file(""), ErrorCode::kBadFile, {"folder"});
    write_file(bad_, {});
    expect_error(bad_, ErrorCode::kBadFile, {bad_, "empty"});
    const std::string text = "It was the best of times, it was the worst of times.\n";
    write_file(bad_, {text.begin(), text.end()});
    expect_error(bad_, ErrorCode::kBadFile, {bad_, "does not begin with 'GGUF'"});
}

TEST_F(BadFiles, GarbageAfterTheMagicIsRefused) {
    std::mt19937 random(5);
    std::vector<char> bytes(4096);
    for (char & c : bytes) { c = static_cast<char>(random()); }
    std::memcpy(bytes.data(), "GGUF\3\0\0\0", 8);
    write_file(bad_, bytes);
    expect_error(bad_, ErrorCode::kBadFile, {bad_, "announces"});
}

TEST_F(BadFiles, UnknownVersionsAndBigEndianFilesAreNamed) {
    std::vector<char> bytes = read_file(good_);
    bytes[4] = 9;
    write_file(bad_, bytes);
    expect_error(bad_, ErrorCode::kUnsupported, {"version 9"});
    std::memcpy(bytes.data() + 4, "\0\0\0\3", 4);
    write_file(bad_, bytes);
    expect_error(bad_, ErrorCode::kUnsupported, {"big-endian"});
}

TEST_F(BadFiles, ATruncatedFileNamesTheTensorAndTheSizes) {
    std::vector<char> bytes = read_file(good_);
    bytes.resize(bytes.size() - 4096);
    write_file(bad_, bytes);
    expect_error(bad_, ErrorCode::kBadFile, {"tensor 'blk.1.", "truncated", "bytes of data"});
    bytes.resize(2000);
    write_file(bad_, bytes);
    expect_error(bad_, ErrorCode::kBadFile, {"cut off", "of 2000"});
}

// ggml's reader compares each name with all before it: so many would take it minutes.
TEST_F(BadFiles, MoreTensorsOrKeysThanAnyModelHasAreRefusedByTheirNumber) {
    std::vector<char> bytes;
    const auto add = [&](const auto & value) {
        const auto * begin = reinterpret_cast<const char *>(&value);
        bytes.insert(bytes.end(), begin, begin + sizeof(value));
    };
    const auto add_name = [&](const std::string & name) {
        add(uint64_t{name.size()});
        bytes.insert(bytes.end(), name.begin(), name.end());
    };
    for (const auto & [n_tensors, n_keys, text] :
         {std::tuple{uint64_t{8193}, uint64_t{0}, "has 8193 tensors and 0 metadata keys: at most 8192 of each"},
          std::tuple{uint64_t{0}, uint64_t{8193}, "has 0 tensors and 8193 metadata keys"}}) {
        bytes = {'G', 'G', 'U', 'F', 3, 0, 0, 0};
        add(n_tensors), add(n_keys);
        for (uint64_t i = 0; i < n_keys; ++i) { add_name("k." + std::to_string(i)), add(uint32_t{0}), add(uint8_t{1}); }
        for (uint64_t i = 0; i < n_tensors; ++i) {
            add_name("v." + std::to_string(i)), add(uint32_t{1}), add(int64_t{1}), add(uint32_t{0}), add(uint64_t{0});
        }
        bytes.insert(bytes.end(), 64, 0);
        write_file(bad_, bytes);
        expect_error(bad_, ErrorCode::kUnsupported, {bad_, text});
    }
}

TEST_F(BadFiles, AnUnknownArchitectureIsNamedBesideTheKnownOnes) {
    expect_error_after({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "general.architecture", "mamba"); }},
                       ErrorCode::kUnsupported, {"'mamba'", "llama, qwen2, qwen3, qwen3moe"});
    expect_error_after({.metadata = [](gguf_context * g) { gguf_remove_key(g, "general.architecture"); }}, ErrorCode::kBadFile,
                       {"general.architecture"});
}

TEST_F(BadFiles, AMissingTensorIsNamed) {
    expect_error_after({.tensor = [](ggml_tensor * t) { return std::strcmp(t->name, "blk.1.ffn_up.weight") != 0; }},
                       ErrorCode::kBadFile, {"'blk.1.ffn_up.weight' is missing", "[32, 64]"});
}

TEST_F(BadFiles, AWrongShapeIsNamedWithWhatWasExpected) {
    const auto reshape = [](ggml_tensor * t) {
        if (std::strcmp(t->name, "blk.0.attn_k.weight") == 0) {
            t->ne[0] = 16;
            t->ne[1] = 32;
            t->nb[1] = 16 * sizeof(float);
            t->nb[2] = t->nb[3] = t->nb[1] * 32;
        }
        return true;
    };
    expect_error_after({.tensor = reshape}, ErrorCode::kBadFile,
                       {"'blk.0.attn_k.weight'", "shape [16, 32]", "expected [32, 16]"});
}

TEST_F(BadFiles, ATensorWithoutAPlaceIsRefused) {
    const auto rename = [](ggml_tensor * t) {
        if (std::strcmp(t->name, "output.weight") == 0) { ggml_set_name(t, "output.scale"); }
        return true;
    };
    expect_error_after({.tensor = rename}, ErrorCode::kUnsupported, {"'output.scale' has no place in architecture 'llama'"});
}

TEST_F(BadFiles, ANormThatIsNoFloatIsRefused) {
    const auto retype = [](ggml_tensor * t) {
        if (std::strcmp(t->name, "output_norm.weight") == 0) { t->type = GGML_TYPE_I32; }
        return true;
    };
    expect_error_after({.tensor = retype}, ErrorCode::kUnsupported, {"'output_norm.weight'", "type i32", "expected f32"});
}

TEST_F(BadFiles, FusedMatricesWhoseRowsDoNotAddUpAreRefused) {
    const auto rename = [](ggml_tensor * t) {
        if (std::strcmp(t->name, "blk.0.attn_q.weight") == 0) { ggml_set_name(t, "blk.0.attn_qkv.weight"); }
        return true;
    };
    expect_error_after({.tensor = rename}, ErrorCode::kBadFile, {"'blk.0.attn_qkv.weight'", "[32, 32]", "expected 64 rows"});
}

TEST_F(BadFiles, HyperParametersOutOfRangeAreNamed) {
    struct Change {
        const char * key;
        uint32_t value;
        std::vector<std::string> texts;
    };
    for (const Change & c :
         {Change{"llama.attention.head_count", 0, {"llama.attention.head_count", "is 0"}},
          Change{"llama.attention.head_count_kv", 0, {"llama.attention.head_count_kv", "is 0"}},
          Change{"llama.attention.head_count_kv", 3, {"no multiple", "which is 3"}},
          Change{"llama.block_count", 0, {"llama.block_count", "is 0"}},
          Change{"llama.block_count", 4000000000U, {"llama.block_count", "4000000000"}},
          Change{"llama.block_count", 3, {"'blk.2.attn_norm.weight' is missing"}},
          Change{"llama.embedding_length", 64, {"token_embd.weight", "[32, 384]", "[64, 384]"}},
          Change{"llama.rope.dimension_count", 7, {"llama.rope.dimension_count", "is 7"}},
          Change{"llama.rope.dimension_count", 64, {"llama.rope.dimension_count", "is 64", "head size, 8"}}}) {
        SCOPED_TRACE(c.key);
        expect_error_after({.metadata = [&](gguf_context * g) { gguf_set_val_u32(g, c.key, c.value); }}, ErrorCode::kBadFile,
                           c.texts);
    }
}

TEST_F(BadFiles, AMissingOrMistypedKeyIsNamed) {
    expect_error_after({.metadata = [](gguf_context * g) { gguf_remove_key(g, "llama.block_count"); }}, ErrorCode::kBadFile,
                       {"'llama.block_count' is missing"});
    expect_error_after({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "llama.block_count", "two"); }},
                       ErrorCode::kBadFile, {"'llama.block_count' is no number"});
    expect_error_after(
        {.metadata = [](gguf_context * g) { gguf_set_val_f32(g, "llama.attention.layer_norm_rms_epsilon", NAN); }},
        ErrorCode::kBadFile, {"layer_norm_rms_epsilon", "nan"});
    expect_error_after({.metadata = [](gguf_context * g) { gguf_set_val_str(g, "llama.rope.scaling.type", "dynamic"); }},
                       ErrorCode::kUnsupported, {"llama.rope.scaling.type", "dynamic", "none, linear, yarn, longrope"});
    expect_error_after({.metadata = [](gguf_context * g) { gguf_set_val_f32(g, "llama.attention.scale", 0.25F); }},
                       ErrorCode::kUnsupported, {"llama.attention.scale", "0.25"});
}

TEST_F(BadFiles, HeadCountsPerLayerMustBeEqual) {
    const uint32_t equal[] = {2, 2};
    const uint32_t unequal[] = {2, 4};
    const auto set = [](const uint32_t * counts) {
        return
            [counts](gguf_context * g) { gguf_set_arr_data(g, "llama.attention.head_count_kv", GGUF_TYPE_UINT32, counts, 2); };
    };
    ASSERT_TRUE(edit_gguf(good_, bad_, {.metadata = set(equal)}));
    EXPECT_TRUE(ModelFile::load(bad_, {}).ok());
    expect_error_after({.metadata = set(unequal)}, ErrorCode::kUnsupported,
                       {"attention.head_count_kv", "differs between layers"});
}

TEST_F(BadFiles, ExpertsAsSeparateTensorsAreExplained) {
    RandomModelSpec spec;
    spec.n_experts = 2;
    spec.n_experts_used = 1;
    spec.n_ff_expert = 32;
    ASSERT_TRUE(write_random_model(spec, good_).ok());
    const auto rename = [](ggml_tensor * t) {
        if (std::strcmp(t->name, "blk.0.ffn_gate_exps.weight") == 0) { ggml_set_name(t, "blk.0.ffn_gate.0.weight"); }
        return true;
    };
    expect_error_after({.tensor = rename}, ErrorCode::kUnsupported, {"blk.0.ffn_gate.0.weight", "convert the model again"});
}

TEST_F(BadFiles, AnUnknownChoiceOfExpertsIsRefused) {
    RandomModelSpec spec;
    spec.n_experts = 4;
    spec.n_experts_used = 2;
    spec.n_ff_expert = 32;
    ASSERT_TRUE(write_random_model(spec, good_).ok());
    for (const char * key : {"llama.expert_group_count", "llama.expert_gating_func"}) {
        expect_error_after({.metadata = [&](gguf_context * g) { gguf_set_val_u32(g, key, 2); }}, ErrorCode::kUnsupported,
                           {key, "is 2"});
    }
    expect_error_after({.metadata = [&](gguf_context * g) { gguf_set_val_u32(g, "llama.expert_used_count", 5); }},
                       ErrorCode::kBadFile, {"llama.expert_used_count", "is 5", "to 4"});
}

TEST_F(BadFiles, AnAlignmentThatIsNoPowerOfTwoIsRefused) {
    // ggml's own reader would end the process on the first of these.
    std::vector<char> bytes = read_file(good_);
    const auto with_key = [&](uint32_t type, uint64_t value, size_t size) {
        std::vector<char> out(bytes.begin(), bytes.begin() + 16);
        uint64_t n_keys = 0;
        std::memcpy(&n_keys, bytes.data() + 16, 8);
        ++n_keys;
        const std::string key = "general.alignment";
        const uint64_t length = key.size();
        const auto append = [&out](const void * data, size_t n) {
            const char * c = static_cast<const char *>(data);
            out.insert(out.end(), c, c + n);
        };
        append(&n_keys, 8);
        append(&length, 8);
        append(key.data(), key.size());
        append(&type, 4);
        append(&value, size);
        out.insert(out.end(), bytes.begin() + 24, bytes.end());
        return out;
    };
    write_file(bad_, with_key(8, 0, 8));  // an empty string
    expect_error(bad_, ErrorCode::kBadFile, {"general.alignment"});
    for (const uint32_t alignment : {0U, 1U, 33U}) {
        write_file(bad_, with_key(4, alignment, 4));
        expect_error(bad_, ErrorCode::kBadFile, {"general.alignment is " + std::to_string(alignment)});
    }
}

// Flipped bytes and cut ends: any answer is right but a crash or a hang. The header is what counts, so that it gets the damage.
TEST_F(BadFiles, DamagedHeadersNeverEndTheProcess) {
    const std::vector<char> bytes = read_file(good_);
    std::mt19937 random(11);
    const size_t header = std::min<size_t>(bytes.size(), 24000);
    const char nasty[] = {0, 1, 0x7F, static_cast<char>(0x80), static_cast<char>(0xFF)};
    int n_refused = 0;
    for (int trial = 0; trial < 2000; ++trial) {
        std::vector<char> damaged = bytes;
        const int n_bytes = 1 + static_cast<int>(random() % 4);
        for (int i = 0; i < n_bytes; ++i) { damaged[random() % header] = nasty[random() % sizeof(nasty)]; }
        if (trial % 4 == 0) { damaged.resize(random() % damaged.size()); }
        if (damaged.empty()) { continue; }
        const auto parsed = parse_gguf({reinterpret_cast<const uint8_t *>(damaged.data()), damaged.size()}, "damaged");
        n_refused += parsed.ok() ? 0 : 1;
        if (trial % 10 == 0) {
            write_file(bad_, damaged);
            (void)ModelFile::load(bad_, {}).ok();
        }
    }
    EXPECT_GT(n_refused, 500);
}

}  // namespace
}  // namespace pith::bad_file_test
