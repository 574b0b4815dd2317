// shapes.cpp - the shapes of published models, as their configurations have them. Stage: model.
#include <string>

#include "model/random/random_model.h"

namespace pith {
namespace {

void set_widths(RandomModelSpec & spec, int n_layers, int n_embd, int n_heads, int n_kv_heads, int head_dim, int n_ff) {
    spec.n_layers = n_layers;
    spec.n_embd = n_embd;
    spec.n_heads = n_heads;
    spec.n_kv_heads = n_kv_heads;
    spec.head_dim = head_dim;
    spec.n_ff = n_ff;
}

void set_llama3(RandomModelSpec & spec, float factor, bool tied) {
    spec.n_ctx_train = 131072;
    spec.n_vocab = 128256;
    spec.rope_base = 500000.0F;
    spec.llama3_freqs = true;
    spec.rope_factor = factor;
    spec.rope_n_ctx_orig = 8192;
    spec.tied = tied;
}

void set_yarn(RandomModelSpec & spec, float base, float factor, int n_ctx_orig) {
    spec.rope_base = base;
    spec.rope_scaling = RopeScaling::kYarn;
    spec.rope_factor = factor;
    spec.rope_n_ctx_orig = n_ctx_orig;
}

void qwen2_half_b(RandomModelSpec & spec) {
    spec.arch = "qwen2";
    spec.n_ctx_train = 32768;
    spec.n_vocab = 151936;
    spec.rope_base = 1000000.0F;
    spec.tied = true;
    set_widths(spec, 24, 896, 14, 2, 64, 4864);
}

void llama_1b(RandomModelSpec & spec) {
    set_widths(spec, 16, 2048, 32, 8, 64, 8192);
    set_llama3(spec, 32.0F, true);
}

void llama_3b(RandomModelSpec & spec) {
    set_widths(spec, 28, 3072, 24, 8, 128, 8192);
    set_llama3(spec, 32.0F, true);
}

void llama_8b(RandomModelSpec & spec) {
    set_widths(spec, 32, 4096, 32, 8, 128, 14336);
    set_llama3(spec, 8.0F, false);
}

void ministral3_3b(RandomModelSpec & spec) {
    spec.arch = "mistral3";
    spec.n_ctx_train = 262144;
    spec.n_vocab = 131072;
    spec.tied = true;
    set_widths(spec, 26, 3072, 32, 8, 128, 9216);
    set_yarn(spec, 1000000.0F, 16.0F, 16384);
    spec.keys = {{"attention.temperature_scale", 0.1F},
                 {"rope.scaling.yarn_beta_fast", 32.0F},
                 {"rope.scaling.yarn_beta_slow", 1.0F},
                 {"rope.scaling.yarn_log_multiplier", 1.0F}};
}

void gemma3_4b(RandomModelSpec & spec) {
    spec.arch = "gemma3";
    spec.n_ctx_train = 131072;
    spec.n_vocab = 262144;
    spec.tied = true;
    spec.window = 1024;
    spec.rope_base = 1000000.0F;
    spec.rope_scaling = RopeScaling::kLinear;
    spec.rope_factor = 8.0F;
    set_widths(spec, 34, 2560, 8, 4, 256, 10240);
}

void gemma4_31b(RandomModelSpec & spec) {
    spec.arch = "gemma4";
    spec.n_ctx_train = 262144;
    spec.n_vocab = 262144;
    spec.tied = true;
    spec.window = 1024;
    spec.rope_base = 1000000.0F;
    set_widths(spec, 60, 5376, 32, 4, 512, 21504);
    spec.keys = {{"attention.sliding_window_pattern", RandomList<bool>{{true, true, true, true, true, false}}},
                 {"attention.head_count_kv", RandomList<int32_t>{{16, 16, 16, 16, 16, 4}}},
                 {"attention.key_length_swa", 256U},
                 {"attention.value_length_swa", 256U},
                 {"rope.dimension_count_swa", 256U},
                 {"rope.freq_base_swa", 10000.0F},
                 {"embedding_length_per_layer_input", 0U},
                 {"final_logit_softcapping", 30.0F}};
}

void qwen35_27b(RandomModelSpec & spec) {
    spec.arch = "qwen35";
    spec.n_ctx_train = 262144;
    spec.n_vocab = 248320;
    spec.rope_base = 10000000.0F;
    set_widths(spec, 64, 5120, 24, 4, 256, 17408);
    spec.keys = {{"rope.dimension_count", 64U},   {"rope.dimension_sections", std::vector<int32_t>{11, 11, 10, 0}},
                 {"full_attention_interval", 4U}, {"ssm.conv_kernel", 4U},
                 {"ssm.state_size", 128U},        {"ssm.time_step_rank", 48U},
                 {"ssm.group_count", 16U},        {"ssm.inner_size", 6144U}};
}

void gpt_oss_20b(RandomModelSpec & spec) {
    spec.arch = "gpt-oss";
    spec.n_ctx_train = 131072;
    spec.n_vocab = 201088;
    spec.window = 128;
    spec.n_experts = 32;
    spec.n_experts_used = 4;
    spec.n_ff_expert = 2880;
    set_widths(spec, 24, 2880, 64, 8, 64, 2880);
    set_yarn(spec, 150000.0F, 32.0F, 4096);
}

struct Shape {
    const char * name;
    void (*set)(RandomModelSpec & spec);
};

constexpr Shape kShapes[] = {
    {"0.5b", qwen2_half_b},            // Qwen2.5
    {"1b", llama_1b},                  // Llama 3.2
    {"3b", llama_3b},                  // Llama 3.2
    {"8b", llama_8b},                  // Llama 3.1
    {"ministral3-3b", ministral3_3b},  // Ministral 3
    {"gemma3-4b", gemma3_4b},          // Gemma 3, its text
    {"gemma4-31b", gemma4_31b},        // Gemma 4, its text
    {"qwen3.5-27b", qwen35_27b},       // Qwen 3.5, its text
    {"gpt-oss-20b", gpt_oss_20b},      // gpt-oss
};

}  // namespace

std::string shape_names() {
    std::string names;
    for (const Shape & shape : kShapes) { names += (names.empty() ? "" : ", ") + std::string(shape.name); }
    return names;
}

Result<RandomModelSpec> shape_preset(std::string_view name) {
    for (const Shape & shape : kShapes) {
        if (name != shape.name) { continue; }
        RandomModelSpec spec;
        spec.name = "random-" + std::string(name);
        shape.set(spec);
        return spec;
    }
    return {ErrorCode::kInvalidArgument, "random model: unknown shape '" + std::string(name) + "'; known are " + shape_names()};
}

}  // namespace pith
