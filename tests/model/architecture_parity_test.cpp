// architecture_parity_test.cpp - logits of every architecture against libllama's, at every position, over files with all the
// tensors that libllama asks for and with few of them.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "every_case.h"
#include "model/arch/architecture.h"
#include "model/architecture_files.h"
#include "model/gguf_edit.h"
#include "model/llama_logits.h"
#include "model/plain_attention.h"

namespace pith::architecture_parity_test {
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
// Where products round rows otherwise than libllama's, a router may choose another expert for a token, whose logits then are
// others; tokens behind it see them, and which these are differs from processor to processor. Of all positions no more than one
// in so many.
constexpr int kAnotherExpert = 2;

// Mixtral is a llama whose feed-forwards are experts.
std::vector<ArchitectureFile> first_files() {
    std::vector<ArchitectureFile> first;
    for (const ArchitectureFile & file : architecture_files()) {
        const bool is_new = std::ranges::find(first, file.arch, &ArchitectureFile::arch) == first.end();
        if (is_new || file.name == "mixtral") { first.push_back(file); }
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
    const std::vector<int32_t> tokens = random_tokens(96, n_vocab);  // the widest window is 40
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

// The first case of each architecture, its matrices wide enough for blocks of 256, quantised: libllama multiplies by ggml's
// kernels, which round what they multiply with, Pith by these and by its own. One line a type; in the
// default run one type for each architecture, in turns, and gpt-oss's own.
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
    const auto files = first_files();
    const auto row = static_cast<size_t>(std::ranges::find(files, GetParam().name, &ArchitectureFile::name) - files.begin());
    size_t i = 0;
    for (const ggml_type type : {GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS, GGML_TYPE_MXFP4}) {
        if (type == GGML_TYPE_MXFP4 ? GetParam().arch != "gpt-oss" : !testing::in_turn(row, i++, 6)) { continue; }
        SCOPED_TRACE(ggml_type_name(type));
        ASSERT_TRUE(write_architecture_file(wide, path, type)) << "libllama refuses the metadata";
        const auto model = ModelFile::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        EXPECT_EQ((*model)->weight_type_name(), ggml_type_name(type));
        const int n_vocab = (*model)->hparams().n_vocab;
        const std::vector<int32_t> tokens = random_tokens(24, n_vocab);
        const std::vector<float> reference = llama_logits(path, tokens);
        for (const bool own : {false, true}) {
            std::vector<float> margins;
            const std::vector<float> logits = plain_logits(**model, tokens, {}, {}, 2, GGML_TYPE_F32, nullptr, nullptr,
                                                           &margins, own ? kCpuMulMat : kGgmlMulMat);
            ASSERT_EQ(logits.size(), reference.size());
            const auto difference = compare_logits(logits, reference, n_vocab, kQuantisedTie, margins);
            std::cout << (own ? "own products | " : "quantised | ")
                      << (GetParam().name == "mixtral" ? "llama (Mixtral)" : GetParam().arch) << " | " << ggml_type_name(type)
                      << " | " << difference.max_relative << " | " << difference.n_far << " | " << difference.n_router_ties
                      << "\n";
            const bool routes = own && (*model)->hparams().n_experts > 0;
            EXPECT_LE(difference.n_far, routes ? static_cast<int>(tokens.size()) / kAnotherExpert : 0) << own;
            EXPECT_LE(difference.n_argmax_changed, difference.n_far) << own;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Wide, QuantisedFileParity, ::testing::ValuesIn(first_files()),
                         [](const auto & instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(F32, ArchitectureFileParity, ::testing::ValuesIn(architecture_files()),
                         [](const auto & instance) { return instance.param.name; });

TEST(Architectures, EachHasACase) {
    std::set<std::string_view> tested;
    const auto files = architecture_files();
    for (const ArchitectureFile & file : files) { tested.insert(file.arch); }
    for (const Architecture & one : architectures()) { EXPECT_TRUE(tested.contains(one.name)) << one.name; }
}

ArchitectureFile file_named(const char * name) {
    const auto files = architecture_files();
    return *std::ranges::find(files, name, &ArchitectureFile::name);
}

// Logits of all positions; empty, and a failure, where the file does not load.
std::vector<float> logits_of(const std::string & path, const std::vector<int32_t> & tokens) {
    const auto model = ModelFile::load(path, {});
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? plain_logits(**model, tokens) : std::vector<float>();
}

// A window of 0 makes every layer rotate and see everything. libllama 0.7 ends the process on such a file. In texts of one
// chunk the first three layers are those of a file that does not say so.
TEST(Architectures, Llama4WithoutChunksRotatesInEveryLayer) {
    const TempFolder folder;
    const std::string plain = folder.file("plain.gguf");
    const std::string whole = folder.file("whole.gguf");
    ASSERT_TRUE(write_architecture_file(file_named("llama4"), plain));
    ASSERT_TRUE(testing::edit_gguf(plain, whole,
                                   {[](gguf_context * g) { gguf_set_val_u32(g, "llama4.attention.sliding_window", 0); }, {}}));
    const std::vector<int32_t> tokens = random_tokens(40, 384);
    std::vector<std::vector<std::vector<float>>> inputs;  // [file][layer]
    for (const std::string & path : {plain, whole}) {
        const auto model = ModelFile::load(path, {});
        ASSERT_TRUE(model.ok()) << model.status().message();
        ASSERT_FALSE(plain_logits(**model, tokens, {}, {}, 2, GGML_TYPE_F32, nullptr, &inputs.emplace_back()).empty());
        const Hparams & hp = (*model)->hparams();
        const bool is_whole = path == whole;
        EXPECT_EQ(hp.governs_all(), is_whole);
        EXPECT_EQ(hp.query_temperature == 0.0F, is_whole);
        EXPECT_EQ(std::ranges::all_of(hp.layers, &LayerHparams::rotates), is_whole);
    }
    for (size_t l = 0; l <= 3; ++l) { EXPECT_EQ(inputs[0][l], inputs[1][l]) << "layer " << l; }
    EXPECT_NE(inputs[0][4], inputs[1][4]);  // the fourth layer rotates in one of them
}

// Converters count blocks that predict further tokens among the others in lists, too.
TEST(Architectures, ListsMayGoOnBehindTheLastLayer) {
    const TempFolder folder;
    const std::string plain = folder.file("plain.gguf");
    const std::string more = folder.file("more.gguf");
    const std::vector<int32_t> tokens = random_tokens(24, 384);
    std::vector<float> ones(64, 1.0F);
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(ggml_init({size_t{1} << 20U, nullptr, false}),
                                                                      &ggml_free);
    // A list of the metadata with one value more.
    const auto longer = [](gguf_context * g, const std::string & key, int32_t value) {
        const int64_t at = gguf_find_key(g, key.c_str());
        const auto * data = static_cast<const int32_t *>(gguf_get_arr_data(g, at));
        std::vector<int32_t> values(data, data + gguf_get_arr_n(g, at));
        values.push_back(value);
        gguf_set_arr_data(g, key.c_str(), GGUF_TYPE_INT32, values.data(), values.size());
    };
    ASSERT_TRUE(write_architecture_file(file_named("nemotron_h_moe"), plain));
    ggml_tensor * norm = ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64);
    std::copy(ones.begin(), ones.end(), static_cast<float *>(norm->data));
    ggml_set_name(norm, "blk.5.nextn.enorm.weight");
    const auto edit = [&](gguf_context * g) {
        longer(g, "nemotron_h_moe.attention.head_count_kv", 2);
        longer(g, "nemotron_h_moe.feed_forward_length", 32);
        gguf_set_val_u32(g, "nemotron_h_moe.block_count", 6);
        gguf_set_val_u32(g, "nemotron_h_moe.nextn_predict_layers", 1);
    };
    ASSERT_TRUE(testing::edit_gguf(plain, more, {edit, {}, {norm}}));
    const std::vector<float> expected = logits_of(plain, tokens);
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(logits_of(more, tokens), expected);
}

// Ollama's conversions name some tensors and keys otherwise, and leave some out.
// All its keys, under another name of the architecture.
void call_otherwise(gguf_context * g, const std::string & from, const std::string & to) {
    gguf_context * copy = gguf_init_empty();
    gguf_set_kv(copy, g);
    for (int64_t i = 0; i < gguf_get_n_kv(copy); ++i) {
        const std::string key = gguf_get_key(copy, i);
        if (!key.starts_with(from + ".")) { continue; }
        const std::string other = to + key.substr(from.size());
        gguf_remove_key(g, key.c_str());
        switch (gguf_get_kv_type(copy, i)) {
            case GGUF_TYPE_UINT32:
                gguf_set_val_u32(g, other.c_str(), gguf_get_val_u32(copy, i));
                break;
            case GGUF_TYPE_FLOAT32:
                gguf_set_val_f32(g, other.c_str(), gguf_get_val_f32(copy, i));
                break;
            case GGUF_TYPE_STRING:
                gguf_set_val_str(g, other.c_str(), gguf_get_val_str(copy, i));
                break;
            default:
                ADD_FAILURE() << key << " has a type that is not copied here";
        }
    }
    gguf_set_val_str(g, "general.architecture", to.c_str());
    gguf_free(copy);
}

TEST(Architectures, OllamasFilesAreReadAsTheOthers) {
    using Keys = testing::ArchitectureKeys;
    struct Case {
        const char * name;
        std::function<void(const Keys &)> keys;        // more of them, in the plain file
        std::function<void(gguf_context *)> metadata;  // what differs
        std::vector<std::pair<std::string, std::string>> renamed;
    };
    const auto none = [](const Keys &) {};
    const auto gemma3 = [](const Keys & keys) {
        keys.u32("context_length", 131072);
        keys.f32("attention.layer_norm_rms_epsilon", 1e-6F);
        keys.f32("rope.freq_base", 500000.0F);
        keys.f32("rope.freq_base_swa", 5000.0F);
        keys.text("rope.scaling.type", "linear");
        keys.f32("rope.scaling.factor", 8.0F);
    };
    const std::vector<Case> cases = {
        {"gemma3",
         gemma3,
         [](gguf_context * g) {
             for (const char * key : {"attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.freq_base_swa",
                                      "rope.scaling.type", "rope.scaling.factor"}) {
                 gguf_remove_key(g, (std::string("gemma3.") + key).c_str());
             }
             gguf_set_val_f32(g, "gemma3.rope.global.freq_base", 500000.0F);
             gguf_set_val_f32(g, "gemma3.rope.local.freq_base", 5000.0F);
             gguf_set_val_u32(g, "gemma3.vocab_size", 385);  // one for images
         },
         {}},
        {"gemma4_experts", none, {}, {{".ffn_down_exps.scale", ".ffn_gate_inp.per_expert_scale"}}},
        {"lfm2",
         none,
         [](gguf_context * g) { gguf_set_val_u32(g, "lfm2.feed_forward_length", 4096); },
         {{"token_embd_norm.weight", "output_norm.weight"}}},
        {"gpt_oss",
         none,
         [](gguf_context * g) {
             gguf_remove_key(g, "gpt-oss.expert_feed_forward_length");
             gguf_remove_key(g, "gpt-oss.rope.scaling.type");
             call_otherwise(g, "gpt-oss", "gptoss");
         },
         {{".attn_output.weight", ".attn_out.weight"},
          {".attn_output.bias", ".attn_out.bias"},
          {".attn_sinks.weight", ".attn_sinks"},
          {".post_attention_norm.weight", ".ffn_norm.weight"}}},
        {"olmo3", none, [](gguf_context * g) { call_otherwise(g, "olmo2", "olmo3"); }, {}},
        {"mistral3",
         none,
         [](gguf_context * g) {
             const std::pair<const char *, const char *> names[] = {
                 {"attention.temperature_scale", "rope.scaling_beta"},
                 {"rope.scaling.yarn_beta_fast", "rope.scaling.beta_fast"},
                 {"rope.scaling.yarn_beta_slow", "rope.scaling.beta_slow"},
                 {"rope.scaling.yarn_log_multiplier", "rope.scaling.mscale_all_dim"},
             };
             for (const auto & [own, ollamas] : names) {
                 const std::string key = std::string("mistral3.") + own;
                 const float value = gguf_get_val_f32(g, gguf_find_key(g, key.c_str()));
                 gguf_remove_key(g, key.c_str());
                 gguf_set_val_f32(g, (std::string("mistral3.") + ollamas).c_str(), value);
             }
         },
         {}},
        {"qwen35",
         none,
         [](gguf_context * g) {
             const std::vector<int32_t> sections = {3, 3, 2};
             gguf_set_arr_data(g, "qwen35.rope.dimension_sections", GGUF_TYPE_INT32, sections.data(), sections.size());
         },
         {{".ssm_dt.bias", ".ssm_dt"}}},
        {"nemotron_h_moe_narrow_experts",
         none,
         [](gguf_context * g) { gguf_remove_key(g, "nemotron_h_moe.moe_latent_size"); },
         {{".ffn_latent_down.weight", ".ffn_latent_in.weight"}, {".ffn_latent_up.weight", ".ffn_latent_out.weight"}}},
    };
    const TempFolder folder;
    const std::string plain = folder.file("plain.gguf");
    const std::string other = folder.file("other.gguf");
    const std::vector<int32_t> tokens = random_tokens(40, 384);
    for (const Case & c : cases) {
        SCOPED_TRACE(c.name);
        ArchitectureFile file = file_named(c.name);
        const auto keys = file.keys;
        file.keys = [&](const Keys & to) { keys(to), c.keys(to); };
        ASSERT_TRUE(write_architecture_file(file, plain));
        int n_renamed = 0;
        const auto rename = [&](ggml_tensor * tensor) {
            const std::string name = tensor->name;
            for (const auto & [end, to] : c.renamed) {
                if (!name.ends_with(end)) { continue; }
                ggml_set_name(tensor, (name.substr(0, name.size() - end.size()) + to).c_str());
                ++n_renamed;
            }
            return true;
        };
        ASSERT_TRUE(testing::edit_gguf(plain, other, {c.metadata, rename}));
        EXPECT_EQ(n_renamed > 0, !c.renamed.empty());
        const std::vector<float> expected = logits_of(plain, tokens);
        ASSERT_FALSE(expected.empty());
        EXPECT_EQ(logits_of(other, tokens), expected);
    }
}

// A matrix by itself and as a part of another: which of them is the model's nobody knows.
TEST(Architectures, WhatIsThereTwiceIsRefused) {
    const TempFolder folder;
    const std::string path = folder.file("model.gguf");
    ArchitectureFile experts = file_named("qwen35moe_fused_experts");
    experts.more = file_named("qwen35moe").more;
    ArchitectureFile inputs = file_named("qwen3next_fused_inputs");
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
             Case{"nemotron_h",
                  [](const Keys & keys) {
                      keys.state_space(128, 8);
                      keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
                      keys.list("feed_forward_length", {0, 96, 96, 0, 0});
                  },
                  "gives layer 2 a feed-forward beside its attention"},
             Case{"granitehybrid",
                  [](const Keys & keys) {
                      keys.state_space(100, 8);
                      keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
                  },
                  "is 100, no multiple of ssm.time_step_rank, which is 8"},
             Case{"llama",
                  [](const Keys & keys) {
                      keys.list("feed_forward_length", {96, 0, 96, 96, 96});
                  },
                  "llama.feed_forward_length' has a number that is not from 1"},
             Case{"gemma4",
                  [](const Keys & keys) {
                      keys.u32("block_count", 2);
                      keys.u32("attention.sliding_window", 24);
                      keys.flags("attention.sliding_window_pattern", {1, 0});
                      for (const char * key : {"attention.key_length", "attention.key_length_swa", "attention.value_length"}) {
                          keys.u32(key, 32);
                      }
                      keys.u32("attention.value_length_swa", 16);
                      keys.u32("rope.dimension_count", 32);
                  },
                  "gemma4.attention.value_length"},
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
}  // namespace pith::architecture_parity_test
