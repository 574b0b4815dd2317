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
    const std::vector<float> logits = plain_logits(**model, tokens);
    for (const bool one_at_a_time : {false, true}) {
        const std::vector<float> reference = llama_logits(path, tokens, one_at_a_time);
        ASSERT_FALSE(reference.empty());
        ASSERT_EQ(logits.size(), reference.size());
        const auto difference = compare_logits(logits, reference, n_vocab);
        std::cout << GetParam().name << (one_at_a_time ? " decode" : " prefill") << ": max |d|/range "
                  << difference.max_relative << "\n";
        EXPECT_LE(difference.max_relative, 1e-3);
        EXPECT_EQ(difference.n_argmax_changed, 0);
    }
}

INSTANTIATE_TEST_SUITE_P(F32, ArchitectureFileParity, ::testing::ValuesIn(architecture_files()),
                         [](const auto & instance) { return instance.param.name; });

TEST(Architectures, EachHasACase) {
    std::set<std::string_view> tested = {"qwen3moe"};  // architectures.h has it
    const auto files = architecture_files();
    for (const ArchitectureFile & file : files) { tested.insert(file.arch); }
    for (const Architecture & one : architectures()) { EXPECT_TRUE(tested.contains(one.name)) << one.name; }
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
