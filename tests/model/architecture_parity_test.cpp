// architecture_parity_test.cpp - logits of every architecture against libllama's, at every position, over files with all the
// tensors that libllama asks for and with few of them.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "model/arch/architecture.h"
#include "model/architecture_files.h"
#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/plain_attention.h"

namespace pith {
namespace {

using testing::architecture_files;
using testing::ArchitectureFile;
using testing::compare_logits;
using testing::llama_logits;
using testing::plain_logits;
using testing::TempFolder;

std::vector<int32_t> random_tokens(int n, int n_vocab) {
    std::mt19937 random(7);
    std::vector<int32_t> tokens(static_cast<size_t>(n));
    for (int32_t & token : tokens) { token = static_cast<int32_t>(random() % static_cast<unsigned>(n_vocab)); }
    return tokens;
}

// What differs by rounding alone, of the logits' range.
constexpr double kQuantisedTie = 2e-2;

std::vector<ArchitectureFile> first_files() {
    std::vector<ArchitectureFile> first;
    for (const ArchitectureFile & file : architecture_files()) {
        if (std::ranges::find(first, file.arch, &ArchitectureFile::arch) == first.end()) { first.push_back(file); }
    }
    return first;
}

// Rows of 256 where a key says how wide they are.
void widen(const testing::ArchitectureKeys & keys, const ArchitectureFile & file) {
    constexpr uint32_t kWide = 256;
    keys.u32("embedding_length", kWide);
    keys.u32("attention.head_count", kWide / 16);
    for (const char * key : {"feed_forward_length", "expert_feed_forward_length", "expert_shared_feed_forward_length"}) {
        if (keys.has_number(key)) { keys.u32(key, kWide); }
    }
    if (file.arch == "qwen35" || file.arch == "qwen35moe" || file.arch == "qwen3next") {
        keys.u32("ssm.state_size", kWide / 4);
        keys.u32("ssm.inner_size", kWide);
    } else if (keys.has_number("ssm.inner_size")) {
        keys.u32("ssm.inner_size", 2 * kWide);
    }
}

class ArchitectureFileParity : public ::testing::TestWithParam<ArchitectureFile> {};

TEST_P(ArchitectureFileParity, LogitsEqualLibllamasAtEveryPosition) {
    const TempFolder folder;
    const std::string path = folder.file("model.gguf");
    ASSERT_TRUE(write_architecture_file(GetParam(), path)) << "libllama refuses the metadata";
    const auto model = ModelFile::load(path, {});
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ((*model)->hparams().arch_name, GetParam().arch);
    const int n_vocab = (*model)->hparams().n_vocab;
    const std::vector<int32_t> tokens = random_tokens(80, n_vocab);
    std::vector<float> margins;
    const std::vector<float> logits = plain_logits(**model, tokens, {}, {}, 2, GGML_TYPE_F32, nullptr, nullptr, &margins);
    EXPECT_EQ(std::isfinite(margins.front()), (*model)->hparams().n_experts > 0);
    for (const bool one_at_a_time : {false, true}) {
        const std::vector<float> reference = llama_logits(path, tokens, one_at_a_time);
        ASSERT_FALSE(reference.empty());
        ASSERT_EQ(logits.size(), reference.size());
        const auto difference = compare_logits(logits, reference, n_vocab, 2e-3, margins);
        std::cout << GetParam().name << (one_at_a_time ? " decode" : " prefill") << ": max |d|/range "
                  << difference.max_relative << ", router ties " << difference.n_router_ties << "\n";
        EXPECT_LE(difference.n_router_ties, 16) << "what is left would say little";
        EXPECT_LE(difference.max_relative, 1e-3);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

// The first case of each architecture, its matrices wide enough for blocks of 256, quantised: both sides multiply by ggml's
// kernels, which round what they multiply with. One line a type, as docs/models.md has them.
class QuantisedFileParity : public ::testing::TestWithParam<ArchitectureFile> {};

TEST_P(QuantisedFileParity, LogitsAreNearLibllamas) {
    const TempFolder folder;
    const std::string path = folder.file("model.gguf");
    ArchitectureFile wide = GetParam();
    wide.keys = [&](const testing::ArchitectureKeys & keys) {
        GetParam().keys(keys);
        widen(keys, GetParam());
    };
    wide.more.clear();  // of fused experts
    std::erase(wide.without, "ffn_gate_up_exps");
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4}) {
        if (type == GGML_TYPE_MXFP4 && GetParam().arch != "gpt-oss") { continue; }
        SCOPED_TRACE(ggml_type_name(type));
        ASSERT_TRUE(write_architecture_file(wide, path, type)) << "libllama refuses the metadata";
        const auto model = ModelFile::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        EXPECT_EQ((*model)->weight_type_name(), ggml_type_name(type));
        const int n_vocab = (*model)->hparams().n_vocab;
        const std::vector<int32_t> tokens = random_tokens(24, n_vocab);
        std::vector<float> margins;
        const std::vector<float> logits = plain_logits(**model, tokens, {}, {}, 2, GGML_TYPE_F32, nullptr, nullptr, &margins);
        const std::vector<float> reference = llama_logits(path, tokens);
        ASSERT_EQ(logits.size(), reference.size());
        const auto difference = compare_logits(logits, reference, n_vocab, kQuantisedTie, margins);
        std::cout << "quantised | " << GetParam().arch << " | " << ggml_type_name(type) << " | " << difference.max_relative
                  << " | " << difference.n_router_ties << "\n";
        EXPECT_LE(difference.max_relative, kQuantisedTie);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Wide, QuantisedFileParity, ::testing::ValuesIn(first_files()),
                         [](const auto & instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(F32, ArchitectureFileParity, ::testing::ValuesIn(architecture_files()),
                         [](const auto & instance) { return instance.param.name; });

TEST(Architectures, EachHasACase) {
    std::set<std::string_view> tested = {"qwen3moe"};  // architectures.h has it
    const auto files = architecture_files();
    for (const ArchitectureFile & file : files) { tested.insert(file.arch); }
    for (const Architecture & one : architectures()) { EXPECT_TRUE(tested.contains(one.name)) << one.name; }
}

// A matrix by itself and as a part of another: which of them is the model's nobody knows.
TEST(Architectures, WhatIsThereTwiceIsRefused) {
    const TempFolder folder;
    const std::string path = folder.file("model.gguf");
    auto files = architecture_files();
    const auto named = [&](const char * name) { return *std::ranges::find(files, name, &ArchitectureFile::name); };
    ArchitectureFile experts = named("qwen35moe_fused_experts");
    experts.more = named("qwen35moe").more;
    ArchitectureFile inputs = named("qwen3next_fused_inputs");
    inputs.without = {"attn_q.bias"};
    for (const auto & [file, both] : {std::pair{experts, "ffn_gate_up_exps.weight'"}, std::pair{inputs, "ssm_in.weight'"}}) {
        ASSERT_TRUE(write_architecture_file(file, path));
        const auto model = ModelFile::load(path, {});
        ASSERT_FALSE(model.ok());
        EXPECT_NE(model.status().message().find("is there twice, by itself and in 'blk.0." + std::string(both)),
                  std::string::npos)
            << model.status().message();
    }
}

// What is not run yet is said by the key that asks for it.
TEST(Architectures, WhatIsNotRunIsRefusedByName) {
    const TempFolder folder;
    const std::string path = folder.file("model.gguf");
    struct Case {
        const char * arch;
        std::function<void(const testing::ArchitectureKeys &)> keys;
        const char * text;
    };
    using Keys = testing::ArchitectureKeys;
    for (const Case & c : {
             Case{"exaone4", [](const Keys & keys) { keys.u32("attention.sliding_window", 64); },
                  "exaone4.attention.sliding_window"},
             Case{"gpt-oss", [](const Keys & keys) { keys.experts(8, 2, 32); }, "gpt-oss.attention.sliding_window' is missing"},
             Case{"gemma3",
                  [](const Keys & keys) {
                      keys.u32("attention.sliding_window", 8);
                      keys.u32("attention.sliding_window_pattern", 0);
                  },
                  "every layer sees a window only"},
             Case{"gemma2",
                  [](const Keys & keys) {
                      keys.list("attention.sliding_window_pattern", {1, 0});
                  },
                  "is no list of 5 numbers"},
             Case{"hunyuan-dense", [](const Keys & keys) { keys.yarn(4.0F, 32); }, "hunyuan-dense.rope.scaling.type"},
             Case{"qwen3vl", [](const Keys &) {}, "'qwen3vl.rope.dimension_sections' is missing"},
             Case{"qwen3vl",
                  [](const Keys & keys) {
                      keys.list("rope.dimension_sections", {4, 4, 4, 4});
                  },
                  "adds up to 16"},
             Case{"qwen2vl",
                  [](const Keys & keys) {
                      keys.list("rope.dimension_sections", {4, 4, -4, 4});
                  },
                  "is not from 0"},
             Case{"glm4moe",
                  [](const Keys & keys) {
                      keys.experts(8, 2, 32);
                      keys.u32("expert_group_count", 4);
                  },
                  "glm4moe.expert_group_count"},
             Case{"nemotron_h_moe",
                  [](const Keys & keys) {
                      keys.experts(8, 2, 32);
                      keys.u32("moe_latent_size", 16);
                      keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
                  },
                  "nemotron_h_moe.moe_latent_size' is 16"},
             Case{"nemotron_h",
                  [](const Keys & keys) {
                      keys.u32("ssm.conv_kernel", 4);
                      keys.u32("ssm.inner_size", 128);
                      keys.u32("ssm.state_size", 16);
                      keys.u32("ssm.time_step_rank", 8);
                      keys.u32("ssm.group_count", 2);
                      keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
                      keys.list("feed_forward_length", {0, 96, 96, 0, 0});
                  },
                  "gives layer 2 a feed-forward beside its attention"},
             Case{"granitehybrid",
                  [](const Keys & keys) {
                      keys.u32("ssm.conv_kernel", 4);
                      keys.u32("ssm.inner_size", 100);
                      keys.u32("ssm.state_size", 16);
                      keys.u32("ssm.time_step_rank", 8);
                      keys.u32("ssm.group_count", 2);
                      keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
                  },
                  "is 100, no multiple of ssm.time_step_rank, which is 8"},
             Case{"llama",
                  [](const Keys & keys) {
                      keys.list("feed_forward_length", {96, 0, 96, 96, 96});
                  },
                  "llama.feed_forward_length' has a number that is not from 1"},
             Case{"seed_oss", [](const Keys & keys) { keys.f32("attention.scale", 0.3F); }, "seed_oss.attention.scale"},
         }) {
        SCOPED_TRACE(c.text);
        const auto gguf = testing::architecture_metadata({"refused", c.arch, c.keys});
        ASSERT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
        const auto model = ModelFile::load(path, {});
        ASSERT_FALSE(model.ok());
        EXPECT_NE(model.status().message().find(c.text), std::string::npos) << model.status().message();
    }
}

}  // namespace
}  // namespace pith
