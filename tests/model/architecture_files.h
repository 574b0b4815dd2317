// architecture_files.h - random models of every architecture, with the tensors that libllama itself asks for: a case is the
// keys in which it differs. Tests of the model and of the engine share them.
//
// llama_model_init_from_user makes a model of metadata alone and shows every tensor it would read. Their names and shapes,
// filled with random numbers, make a file that both sides load.
#pragma once

#include <ggml.h>
#include <gguf.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"
#include "model/fill_tensor.h"

namespace pith::testing {

// Sets "<architecture>.<key>".
class ArchitectureKeys {
public:
    ArchitectureKeys(gguf_context * gguf, std::string arch) : gguf_(gguf), prefix_(std::move(arch) + ".") {}
    void u32(const std::string & key, uint32_t value) const { gguf_set_val_u32(gguf_, (prefix_ + key).c_str(), value); }
    void f32(const std::string & key, float value) const { gguf_set_val_f32(gguf_, (prefix_ + key).c_str(), value); }
    void flag(const std::string & key, bool value) const { gguf_set_val_bool(gguf_, (prefix_ + key).c_str(), value); }
    void text(const std::string & key, const char * value) const { gguf_set_val_str(gguf_, (prefix_ + key).c_str(), value); }
    void list(const std::string & key, const std::vector<int32_t> & values) const {
        gguf_set_arr_data(gguf_, (prefix_ + key).c_str(), GGUF_TYPE_INT32, values.data(), values.size());
    }
    void flags(const std::string & key, const std::vector<int8_t> & values) const {
        gguf_set_arr_data(gguf_, (prefix_ + key).c_str(), GGUF_TYPE_BOOL, values.data(), values.size());
    }
    bool has_number(const std::string & key) const {
        const int64_t at = gguf_find_key(gguf_, (prefix_ + key).c_str());
        return at >= 0 && gguf_get_kv_type(gguf_, at) == GGUF_TYPE_UINT32;
    }
    void experts(uint32_t n, uint32_t n_used, uint32_t width) const {
        u32("expert_count", n);
        u32("expert_used_count", n_used);
        u32("expert_feed_forward_length", width);
    }
    void state_space(uint32_t inner_size, uint32_t rank) const {
        u32("ssm.conv_kernel", 4);
        u32("ssm.inner_size", inner_size);
        u32("ssm.state_size", 16);
        u32("ssm.time_step_rank", rank);
        u32("ssm.group_count", 2);
    }
    void yarn(float factor, uint32_t n_ctx_orig) const {
        text("rope.scaling.type", "yarn");
        f32("rope.scaling.factor", factor);
        u32("rope.scaling.original_context_length", n_ctx_orig);
    }

private:
    gguf_context * gguf_;
    std::string prefix_;
};

struct AskedTensor {
    std::string name;
    int64_t ne[GGML_MAX_DIMS];
};

struct ArchitectureFile {
    std::string name;  // of the case
    std::string arch;
    std::function<void(const ArchitectureKeys &)> keys;
    std::vector<std::string> without = {};  // parts of the names of tensors that the file does without
    std::function<void(const ArchitectureKeys &)> keys_in_file = [](const ArchitectureKeys &) {};  // not when libllama is asked
    bool fuses_qkv = false;  // one tensor for queries, keys and values, as published files of Phi have; libllama reads both
    std::vector<AskedTensor> more = {};  // tensors that libllama then asks for
};

inline std::ostream & operator<<(std::ostream & out, const ArchitectureFile & c) {
    return out << c.name;
}

// 5 layers: every fourth of some is unlike the others.
inline void set_usual_keys(const ArchitectureKeys & keys) {
    keys.u32("block_count", 5);
    keys.u32("context_length", 256);
    keys.u32("embedding_length", 64);
    keys.u32("feed_forward_length", 96);
    keys.u32("attention.head_count", 4);
    keys.u32("attention.head_count_kv", 2);
    keys.u32("attention.key_length", 16);
    keys.u32("attention.value_length", 16);
    keys.u32("rope.dimension_count", 16);
    keys.f32("attention.layer_norm_rms_epsilon", 1e-5F);
    keys.u32("vocab_size", 384);
}

inline std::vector<ArchitectureFile> architecture_files() {
    using Keys = ArchitectureKeys;
    const auto none = [](const Keys &) {};
    const auto window = [](uint32_t n) { return [n](const Keys & keys) { keys.u32("attention.sliding_window", n); }; };
    const auto short_convolutions = [](uint32_t n) {
        return [n](const Keys & keys) {
            keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
            keys.u32("shortconv.l_cache", n);
        };
    };
    const auto delta_nets = [](const Keys & keys) { keys.state_space(64, 4); };
    const auto mamba = [](const Keys & keys) { keys.state_space(128, 8); };
    const auto hybrid = [=](const Keys & keys) {
        mamba(keys);
        keys.list("attention.head_count_kv", {0, 0, 2, 0, 2});
    };
    // Of each layer its heads and the width of its feed-forward, of which a layer has one or none.
    const auto one_part_a_layer = [=](const std::vector<int32_t> & heads, const std::vector<int32_t> & widths) {
        return [=](const Keys & keys) {
            mamba(keys);
            keys.u32("block_count", static_cast<uint32_t>(heads.size()));
            keys.list("attention.head_count_kv", heads);
            keys.list("feed_forward_length", widths);
            keys.f32("attention.layer_norm_epsilon", 1e-4F);
        };
    };
    const auto interleaved = [](const Keys & keys) { keys.list("rope.dimension_sections", {3, 3, 2, 0}); };
    const auto shared_expert = [](const Keys & keys) {
        keys.experts(8, 2, 32);
        keys.u32("expert_shared_feed_forward_length", 40);
    };
    std::vector<AskedTensor> split_experts;
    for (int l = 0; l < 5; ++l) {
        for (const char * part : {"gate", "up"}) {
            split_experts.push_back({"blk." + std::to_string(l) + ".ffn_" + part + "_exps.weight", {64, 32, 8, 1}});
        }
    }
    // Layers with a window have heads of half the size, and twice as many of keys.
    const auto gemma4 = [](const Keys & keys) {
        keys.u32("block_count", 6);
        keys.u32("attention.sliding_window", 24);
        keys.flags("attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0});
        keys.list("attention.head_count_kv", {4, 4, 2, 4, 4, 2});
        keys.u32("attention.key_length", 32);
        keys.u32("attention.value_length", 32);
        keys.u32("attention.key_length_swa", 16);
        keys.u32("attention.value_length_swa", 16);
        keys.u32("rope.dimension_count", 32);
        keys.u32("rope.dimension_count_swa", 16);
        keys.f32("rope.freq_base", 1000000.0F);
        keys.f32("rope.freq_base_swa", 10000.0F);
        keys.f32("final_logit_softcapping", 30.0F);
        keys.u32("embedding_length_per_layer_input", 0);
    };
    const auto sections = [](const Keys & keys) { keys.list("rope.dimension_sections", {3, 2, 2, 1}); };
    // Of layers with a window. (libllama 0.7 reads it of some architectures; later ones of more.)
    const auto other_base = [](const Keys & keys) { keys.f32("rope.freq_base_swa", 500.0F); };
    const auto multipliers = [](const Keys & keys) {
        keys.f32("embedding_scale", 3.0F);
        keys.f32("residual_scale", 0.4F);
        keys.f32("attention.scale", 0.1F);
        keys.f32("logit_scale", 5.0F);
    };
    const auto glm4moe = [](const Keys & keys) {
        keys.experts(8, 3, 32);
        keys.u32("expert_shared_count", 2);
        keys.u32("leading_dense_block_count", 1);
        keys.u32("expert_gating_func", 2);
        keys.f32("expert_weights_scale", 1.5F);
        keys.flag("expert_weights_norm", true);
        keys.u32("rope.dimension_count", 8);
    };
    const std::vector<std::string> plain = {"attn_q.bias", "attn_k.bias",   "attn_v.bias", "attn_output.bias", "ffn_gate.bias",
                                            "ffn_up.bias", "ffn_down.bias", "rope_freqs",  "rope_factors"};
    std::vector<std::string> tied = plain;
    tied.emplace_back("output.weight");
    return {
        {"llama_everything", "llama", none},
        {"mixtral", "llama", [](const Keys & keys) { keys.experts(8, 2, 96); }},
        {"qwen2_everything", "qwen2", none},
        {"qwen3_everything", "qwen3", none},
        {"qwen3moe", "qwen3moe", [](const Keys & keys) { keys.experts(8, 2, 48); }},
        // libllama asks for a bias of its output, and does not add it.
        {"qwen2vl", "qwen2vl", sections, {"output.bias"}},
        {"qwen2vl_all_pairs_turn",
         "qwen2vl",
         [](const Keys & keys) {
             keys.list("rope.dimension_sections", {2, 3, 3, 0});
         },
         {"output.bias"}},
        {"qwen3vl", "qwen3vl", sections},
        {"qwen3vl_as_published", "qwen3vl",
         [](const Keys & keys) {
             keys.list("rope.dimension_sections", {4, 2, 2, 0});
         },
         tied},
        {"qwen3vl_yarn", "qwen3vl", [=](const Keys & keys) { sections(keys), keys.yarn(4.0F, 32); }, plain},
        {"qwen3vlmoe", "qwen3vlmoe", [=](const Keys & keys) { sections(keys), keys.experts(8, 2, 48); }},
        {"mistral3", "mistral3",
         [](const Keys & keys) {
             keys.yarn(4.0F, 24);
             keys.f32("attention.temperature_scale", 0.4F);
             keys.f32("rope.scaling.yarn_beta_fast", 16.0F);
             keys.f32("rope.scaling.yarn_beta_slow", 2.0F);
             keys.f32("rope.scaling.yarn_log_multiplier", 1.0F);
         }},
        {"mistral3_another_multiplier", "mistral3",
         [](const Keys & keys) {
             keys.yarn(8.0F, 32);
             keys.f32("rope.scaling.yarn_log_multiplier", 0.5F);
         },
         plain},
        {"mistral3_bare", "mistral3", none, tied},
        {"granite", "granite", multipliers},
        {"granite_bare", "granite", [](const Keys & keys) { keys.f32("logit_scale", 2.0F); }, tied},
        {"granitemoe", "granitemoe",
         [=](const Keys & keys) {
             multipliers(keys);
             keys.experts(8, 2, 96);
         }},
        {"granitemoe_shared", "granitemoe",
         [=](const Keys & keys) {
             multipliers(keys);
             keys.experts(8, 2, 96);
             keys.u32("expert_shared_feed_forward_length", 40);
         },
         tied},
        {"smollm3", "smollm3", none},
        {"smollm3_bare", "smollm3", none, tied},
        {"phi3", "phi3", none},
        {"phi3_fused", "phi3", none, {}, none, true},
        {"phi3_long", "phi3",
         [](const Keys & keys) {
             keys.u32("rope.scaling.original_context_length", 32);
             keys.f32("rope.scaling.attn_factor", 1.2F);
         }},
        {"phi3_part_of_a_head", "phi3", [](const Keys & keys) { keys.u32("rope.dimension_count", 12); }, tied},
        {"glm4", "glm4", [](const Keys & keys) { keys.u32("rope.dimension_count", 8); }},
        {"glm4_bare", "glm4", none, tied},
        {"glm4_sections", "glm4",
         [](const Keys & keys) {
             keys.list("rope.dimension_sections", {3, 2, 2, 0});
         },
         plain},
        {"glm4moe", "glm4moe", glm4moe},
        {"glm4moe_that_predicts_further_tokens",
         "glm4moe",
         [=](const Keys & keys) {
             glm4moe(keys);
             keys.u32("block_count", 6);
         },
         {},
         [](const Keys & keys) { keys.u32("nextn_predict_layers", 1); },
         false,
         {{"blk.5.nextn.eh_proj.weight", {128, 64, 1, 1}},
          {"blk.5.nextn.enorm.weight", {64, 1, 1, 1}},
          {"blk.5.nextn.hnorm.weight", {64, 1, 1, 1}}}},
        {"glm4moe_no_qk_norms",
         "glm4moe",
         [=](const Keys & keys) {
             glm4moe(keys);
             keys.flag("expert_weights_norm", false);
         },
         {"attn_q_norm", "attn_k_norm", "attn_q.bias", "attn_k.bias", "attn_v.bias"}},
        {"seed_oss", "seed_oss", [](const Keys & keys) { keys.u32("attention.head_count_kv", 1); }},
        {"seed_oss_bare", "seed_oss", none, tied},
        {"exaone4", "exaone4", none},
        {"exaone4_bare", "exaone4", none, tied},
        {"hunyuan_dense", "hunyuan-dense", none},
        {"hunyuan_dense_bare", "hunyuan-dense", none, tied},
        {"minimax_m2", "minimax-m2",
         [](const Keys & keys) {
             keys.experts(8, 2, 96);
             keys.u32("expert_gating_func", 2);
             keys.u32("rope.dimension_count", 8);
         }},
        {"gemma2", "gemma2", window(24)},
        {"gemma2_bare", "gemma2", [=](const Keys & keys) { window(24)(keys), other_base(keys); }, tied},
        {"gemma2_other_softcaps", "gemma2",
         [](const Keys & keys) {
             keys.u32("attention.sliding_window", 40);
             keys.f32("attn_logit_softcapping", 2.0F);
             keys.f32("final_logit_softcapping", 3.0F);
         },
         tied},
        {"gemma3", "gemma3", [](const Keys & keys) { keys.u32("block_count", 7), keys.u32("attention.sliding_window", 24); }},
        {"gemma3_scaled", "gemma3",
         [](const Keys & keys) {
             keys.u32("block_count", 7);
             keys.u32("attention.sliding_window", 16);
             keys.u32("attention.head_count_kv", 1);
             keys.f32("rope.freq_base", 1000000.0F);
             keys.text("rope.scaling.type", "linear");
             keys.f32("rope.scaling.factor", 8.0F);
         },
         tied},
        {"gemma4", "gemma4", gemma4},
        {"gemma4_values_of_keys",
         "gemma4",
         [=](const Keys & keys) {
             gemma4(keys);
             keys.u32("attention.sliding_window", 40);
             keys.u32("attention.head_count_kv", 2);
             keys.u32("rope.dimension_count_swa", 8);
             keys.f32("rope.freq_base_swa", 5000.0F);
         },
         {"blk.2.attn_v", "blk.5.attn_v", "layer_output_scale", "output.weight"}},
        {"gemma4_experts", "gemma4",
         [=](const Keys & keys) {
             gemma4(keys);
             keys.experts(8, 3, 32);
         }},
        {"gemma4_shared_keys", "gemma4",
         [=](const Keys & keys) {
             gemma4(keys);
             keys.u32("block_count", 9);
             keys.flags("attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 1, 0});
             keys.list("attention.head_count_kv", {2, 2, 2, 2, 2, 2, 2, 2, 2});
             keys.list("feed_forward_length", {96, 96, 96, 96, 96, 96, 160, 160, 160});
             keys.u32("attention.shared_kv_layers", 3);
             keys.u32("embedding_length_per_layer_input", 24);
         }},
        {"gemma4_shared_keys_left_out",
         "gemma4",
         [=](const Keys & keys) {
             gemma4(keys);
             keys.u32("attention.shared_kv_layers", 2);
             keys.flags("attention.sliding_window_pattern", {0, 0, 1, 0, 1, 0});
             keys.list("attention.head_count_kv", {1, 1, 2, 1, 2, 1});
             keys.u32("embedding_length_per_layer_input", 32);
         },
         {"blk.4.attn_k", "blk.4.attn_v", "blk.5.attn_k", "blk.5.attn_v", "output.weight"}},
        {"llama4", "llama4",
         [](const Keys & keys) {
             keys.experts(8, 1, 48);
             keys.u32("interleave_moe_layer_step", 2);
         }},
        {"llama4_more_experts", "llama4",
         [](const Keys & keys) {
             keys.experts(128, 2, 32);
             keys.u32("interleave_moe_layer_step", 1);
             keys.f32("rope.freq_base_swa", 50000.0F);
         },
         tied},
        {"gpt_oss", "gpt-oss",
         [](const Keys & keys) {
             keys.u32("attention.sliding_window", 20);
             keys.experts(8, 3, 48);
             keys.yarn(4.0F, 32);
         }},
        {"gpt_oss_one_kv_head",
         "gpt-oss",
         [=](const Keys & keys) {
             other_base(keys);
             keys.u32("attention.sliding_window", 32);
             keys.u32("attention.head_count_kv", 1);
             keys.experts(4, 2, 32);
         },
         {"rope_freqs"}},
        {"cohere2", "cohere2",
         [](const Keys & keys) {
             keys.u32("attention.sliding_window", 24);
             keys.f32("attention.layer_norm_epsilon", 1e-5F);
             keys.f32("logit_scale", 0.25F);
         }},
        {"cohere2_bare", "cohere2",
         [](const Keys & keys) {
             keys.u32("attention.sliding_window", 36);
             keys.f32("attention.layer_norm_epsilon", 1e-5F);
             keys.f32("logit_scale", 1.0F);
         },
         plain},
        {"olmo3", "olmo2", [=](const Keys & keys) { window(24)(keys), keys.yarn(4.0F, 32); }},
        {"gemma3_another_period", "gemma3",
         [=](const Keys & keys) { window(24)(keys), keys.u32("attention.sliding_window_pattern", 3); }},
        {"olmo3_listed", "olmo2",
         [=](const Keys & keys) {
             window(24)(keys);
             keys.flags("attention.sliding_window_pattern", {1, 0, 0, 1, 0});
         }},
        {"exaone4_32b", "exaone4", [=](const Keys & keys) { window(20)(keys), keys.u32("block_count", 64); }},
        {"lfm2", "lfm2", short_convolutions(3), {"dense_2", "output.weight"}},
        {"lfm2_other_layers",
         "lfm2",
         [=](const Keys & keys) {
             short_convolutions(4)(keys);
             keys.list("attention.head_count_kv", {1, 0, 1, 0, 0});
         },
         {"dense_2", "attn_q.bias", "attn_k.bias", "attn_v.bias"}},
        {"lfm2moe",
         "lfm2moe",
         [=](const Keys & keys) {
             short_convolutions(3)(keys);
             keys.experts(8, 3, 32);
             keys.u32("leading_dense_block_count", 2);
             keys.u32("expert_gating_func", 2);
         },
         {"dense_2", "output.weight", "attn_q.bias", "attn_k.bias", "attn_v.bias"}},
        {"qwen35", "qwen35", [=](const Keys & keys) { delta_nets(keys), interleaved(keys); }, {"attn_q.bias"}},
        {"qwen35_other_layers",
         "qwen35",
         [=](const Keys & keys) {
             delta_nets(keys);
             interleaved(keys);
             keys.u32("full_attention_interval", 2);
             keys.u32("ssm.group_count", 4);
             keys.u32("rope.dimension_count", 8);
             keys.list("rope.dimension_sections", {2, 1, 1, 0});
         },
         {"attn_q.bias", "attn_k.bias", "attn_v.bias", "output.weight"}},
        {"qwen35_listed_layers",
         "qwen35",
         [=](const Keys & keys) {
             delta_nets(keys);
             interleaved(keys);
             keys.flags("attention.recurrent_layers", {0, 1, 1, 0, 1});
         },
         {"attn_q.bias", "attn_k.bias", "attn_v.bias"}},
        {"qwen35moe",
         "qwen35moe",
         [=](const Keys & keys) { delta_nets(keys), interleaved(keys), shared_expert(keys); },
         {"attn_q.bias", "ffn_gate_up_exps"},
         none,
         false,
         split_experts},
        {"qwen3next",
         "qwen3next",
         [=](const Keys & keys) { delta_nets(keys), shared_expert(keys), keys.u32("rope.dimension_count", 8); },
         {"attn_q.bias", "ssm_in", "ffn_gate_up_exps"},
         none,
         false,
         split_experts},
        {"qwen35moe_fused_experts",
         "qwen35moe",
         [=](const Keys & keys) { delta_nets(keys), interleaved(keys), shared_expert(keys); },
         {"attn_q.bias"}},
        {"qwen3next_fused_inputs",
         "qwen3next",
         [=](const Keys & keys) { delta_nets(keys), shared_expert(keys), keys.u32("rope.dimension_count", 8); },
         {"attn_q.bias", "attn_qkv", "attn_gate"}},
        {"granite_no_rotation", "granite",
         [=](const Keys & keys) { multipliers(keys), keys.flag("rope.scaling.finetuned", false); }},
        {"granitehybrid", "granitehybrid", [=](const Keys & keys) { multipliers(keys), hybrid(keys); }},
        {"granitehybrid_experts",
         "granitehybrid",
         [=](const Keys & keys) {
             multipliers(keys);
             hybrid(keys);
             keys.experts(8, 2, 96);
             keys.u32("expert_shared_feed_forward_length", 40);
             keys.flag("rope.scaling.finetuned", false);
         },
         {"attn_q.bias", "attn_k.bias", "attn_v.bias", "output.weight"}},
        {"nemotron_h", "nemotron_h", one_part_a_layer({0, 0, 2, 0, 0, 2}, {0, 96, 0, 0, 96, 0})},
        {"nemotron_h_feed_forward_last",
         "nemotron_h",
         one_part_a_layer({1, 0, 0, 0, 0}, {0, 96, 0, 0, 96}),
         {"attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_output.bias", "ffn_up.bias", "ffn_down.bias", "output.weight"}},
        {"nemotron_h_moe",
         "nemotron_h_moe",
         [=](const Keys & keys) {
             one_part_a_layer({0, 0, 2, 0, 0}, {0, 32, 0, 0, 32})(keys);
             keys.experts(8, 3, 32);
             keys.u32("expert_shared_count", 1);
             keys.u32("expert_shared_feed_forward_length", 40);
             keys.flag("expert_weights_norm", true);
             keys.f32("expert_weights_scale", 2.5F);
         },
         {"ffn_latent_up", "ffn_latent_down"}},
        {"nemotron_h_moe_narrow_experts", "nemotron_h_moe",
         [=](const Keys & keys) {
             one_part_a_layer({0, 0, 2, 0, 0}, {0, 32, 0, 0, 32})(keys);
             keys.experts(8, 3, 32);
             keys.u32("expert_shared_count", 1);
             keys.u32("expert_shared_feed_forward_length", 40);
             keys.u32("moe_latent_size", 24);
             keys.flag("expert_weights_norm", true);
             keys.f32("expert_weights_scale", 1.5F);
         }},
        {"olmo2", "olmo2", none},
        {"olmo2_one_kv_head", "olmo2", [](const Keys & keys) { keys.u32("attention.head_count_kv", 1); }},
    };
}

// Metadata of a case, for both sides.
inline std::unique_ptr<gguf_context, decltype(&gguf_free)> architecture_metadata(const ArchitectureFile & file) {
    std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_set_val_str(gguf.get(), "general.architecture", file.arch.c_str());
    gguf_set_val_str(gguf.get(), "general.name", file.name.c_str());
    gguf_set_val_str(gguf.get(), "tokenizer.ggml.model", "no_vocab");
    const ArchitectureKeys keys(gguf.get(), file.arch);
    set_usual_keys(keys);
    file.keys(keys);
    return gguf;
}

// The tensors that libllama asks for. Empty where it refuses the metadata.
inline std::vector<AskedTensor> asked_tensors(const ArchitectureFile & file) {
    std::vector<AskedTensor> asked;
    if (!load_backends().ok()) { return asked; }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    const auto gguf = architecture_metadata(file);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    const auto record = [](ggml_tensor * tensor, void * to) {
        auto & all = *static_cast<std::vector<AskedTensor> *>(to);
        AskedTensor one{tensor->name, {}};
        std::copy_n(tensor->ne, GGML_MAX_DIMS, one.ne);
        if (std::ranges::find(all, one.name, &AskedTensor::name) == all.end()) {
            all.push_back(one);
        }  // shared ones come often
    };
    llama_model * model = llama_model_init_from_user(gguf.get(), record, &asked, params);
    if (model == nullptr) { return {}; }
    llama_model_free(model);
    return asked;
}

// Whether a case's file has it: heads that classify, and scales of a quantisation that no case uses, are not for it. Gemma 4's
// scales are weights.
inline bool is_wanted(const ArchitectureFile & file, const std::string & name) {
    const bool has_scales = file.arch == "gemma4" && (name.ends_with("_inp.scale") || name.ends_with("down_exps.scale"));
    if (name.starts_with("cls") || (name.ends_with("scale") && !has_scales)) { return false; }
    return std::ranges::none_of(file.without, [&](const std::string & part) {
        return name == part || name.ends_with("." + part) || name.ends_with("." + part + ".weight") || name.starts_with(part);
    });
}

// Queries' tensors as those of queries, keys and values together; those of keys and values go.
inline void fuse_qkv(std::vector<AskedTensor> & asked) {
    const auto is_of = [](const AskedTensor & one, const char * part, const char * end) {
        return one.name.ends_with(std::string(".attn_") + part + end);
    };
    for (const char * end : {".weight", ".bias"}) {
        const int rows = std::string_view(end) == ".weight" ? 1 : 0;
        for (AskedTensor & q : asked) {
            if (!is_of(q, "q", end)) { continue; }
            const std::string blk = q.name.substr(0, q.name.find(".attn_"));
            for (const AskedTensor & other : asked) {
                const bool joins = other.name.starts_with(blk + ".") && (is_of(other, "k", end) || is_of(other, "v", end));
                if (joins) { q.ne[rows] += other.ne[rows]; }
            }
            q.name = blk + ".attn_qkv" + end;
        }
        std::erase_if(asked, [&](const AskedTensor & one) { return is_of(one, "k", end) || is_of(one, "v", end); });
    }
}

// The type of a tensor in a file of quantised matrices: `type`, or what its rows allow; what is read element by element stays
// f32.
inline ggml_type type_of_rows(const AskedTensor & one, ggml_type type) {
    const auto has = [&](const char * part) { return one.name.find(part) != std::string::npos; };
    if (one.ne[1] == 1 || !one.name.ends_with(".weight") || has("norm") || has("conv1d") || has("conv.weight") ||
        has("ffn_gate_inp")) {
        return GGML_TYPE_F32;
    }
    for (const ggml_type next : {type, GGML_TYPE_Q8_0}) {
        if (one.ne[0] % ggml_blck_size(next) == 0) { return next; }
    }
    return GGML_TYPE_F32;
}

// False where libllama refuses the metadata, or the file cannot be written.
inline bool write_architecture_file(const ArchitectureFile & file, const std::string & path, ggml_type type = GGML_TYPE_F32) {
    std::vector<AskedTensor> asked = asked_tensors(file);
    if (asked.empty()) { return false; }
    if (file.fuses_qkv) { fuse_qkv(asked); }
    asked.insert(asked.end(), file.more.begin(), file.more.end());
    const std::unique_ptr<ggml_context, decltype(&ggml_free)> context(ggml_init({size_t{192} << 20U, nullptr, false}),
                                                                      &ggml_free);
    const auto gguf = architecture_metadata(file);
    file.keys_in_file(ArchitectureKeys(gguf.get(), file.arch));
    for (const AskedTensor & one : asked) {
        if (!is_wanted(file, one.name)) { continue; }
        int n_dims = GGML_MAX_DIMS;
        while (n_dims > 1 && one.ne[n_dims - 1] == 1) { --n_dims; }
        ggml_tensor * tensor = ggml_new_tensor(context.get(), GGML_TYPE_F32, n_dims, one.ne);
        ggml_set_name(tensor, one.name.c_str());
        fill_tensor(tensor);
        if (const ggml_type kept = type_of_rows(one, type); kept != GGML_TYPE_F32) {
            ggml_tensor * rounded = ggml_new_tensor(context.get(), kept, n_dims, one.ne);
            ggml_set_name(rounded, one.name.c_str());
            ggml_quantize_chunk(kept, static_cast<const float *>(tensor->data), rounded->data, 0,
                                ggml_nelements(tensor) / one.ne[0], one.ne[0], nullptr);
            tensor = rounded;
        }
        gguf_add_tensor(gguf.get(), tensor);
    }
    return gguf_write_to_file(gguf.get(), path.c_str(), false);
}

}  // namespace pith::testing
