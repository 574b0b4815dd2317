// random_tensors.cpp - see random_tensors.h.
#include "model/random/random_tensors.h"

#include <strings.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include "model/random/random_vocab.h"

namespace pith {
namespace {

constexpr float kNormSpread = 0.1F;  // norms are 1 ± this, so that a forgotten norm shows
constexpr float kBiasSpread = 0.2F;

Status invalid(const std::string & what) {
    return {ErrorCode::kInvalidArgument, "random model: " + what};
}

Result<ggml_type> find_weight_type(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
        const auto type = static_cast<ggml_type>(i);
        const char * type_name = ggml_type_name(type);
        const bool usable = type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 ||
                            (ggml_is_quantized(type) && type != GGML_TYPE_Q8_1 && type != GGML_TYPE_Q8_K);
        if (usable && type_name != nullptr && strcasecmp(type_name, name.c_str()) == 0) { return type; }
    }
    return invalid("unknown weight type '" + name + "'; use one of ggml's, such as f32, f16, bf16, q8_0, q4_0, q4_K");
}

Status check_spec(const RandomModelSpec & spec) {
    constexpr std::array<std::string_view, 4> kArchs = {"llama", "qwen2", "qwen3", "qwen3moe"};
    if (std::find(kArchs.begin(), kArchs.end(), spec.arch) == kArchs.end()) {
        return invalid("unknown architecture '" + spec.arch + "'; known are llama, qwen2, qwen3, qwen3moe");
    }
    const bool experts = spec.n_experts > 0;
    struct Field {
        const char * name;
        int64_t value;
        int64_t low;
        int64_t high;
    };
    constexpr int kMax = 1 << 20;
    const Field fields[] = {
        {"n_layers", spec.n_layers, 1, 1024},
        {"n_embd", spec.n_embd, 2, kMax},
        {"n_heads", spec.n_heads, 1, 1024},
        {"n_kv_heads", spec.n_kv_heads, 1, spec.n_heads},
        {"head_dim", spec.head_dim, 2, 1024},
        {"n_ff", spec.n_ff, experts ? 0 : 1, kMax},
        {"n_vocab", spec.n_vocab, min_random_vocab(spec.byte_tokens), 1 << 22},
        {"n_ctx_train", spec.n_ctx_train, 1, 1 << 30},
        {"n_experts", spec.n_experts, spec.arch == "qwen3moe" ? 1 : 0, 1024},
        {"n_experts_used", spec.n_experts_used, experts ? 1 : 0, spec.n_experts},
        {"n_ff_expert", spec.n_ff_expert, experts ? 1 : 0, kMax},
        {"n_splits", spec.n_splits, 1, 1024},
    };
    for (const Field & field : fields) {
        if (field.value < field.low || field.value > field.high) {
            return invalid(std::string(field.name) + " is " + std::to_string(field.value) + ", must be " +
                           std::to_string(field.low) + " to " + std::to_string(field.high));
        }
    }
    if (spec.n_heads % spec.n_kv_heads != 0) {
        return invalid("n_heads " + std::to_string(spec.n_heads) + " is no multiple of n_kv_heads " +
                       std::to_string(spec.n_kv_heads));
    }
    if (spec.head_dim % 2 != 0) { return invalid("head_dim " + std::to_string(spec.head_dim) + " is odd; RoPE turns pairs"); }
    if (experts && spec.arch != "llama" && spec.arch != "qwen3moe") {
        return invalid("n_experts needs arch llama or qwen3moe, not " + spec.arch);
    }
    if (spec.llama3_freqs && spec.arch != "llama") { return invalid("llama3_freqs needs arch llama, not " + spec.arch); }
    if (!(spec.rope_factor > 0.0F) || !(spec.rope_base > 0.0F)) {
        return invalid("rope_factor and rope_base must be positive");
    }
    return {};
}

// Llama 3.1's frequency factors: long waves are slowed by the factor, short ones kept, those between blended.
std::vector<float> llama3_factors(const RandomModelSpec & spec) {
    constexpr double kLowFreqFactor = 1.0;
    constexpr double kHighFreqFactor = 4.0;
    const double factor = spec.rope_factor > 1.0F ? spec.rope_factor : 8.0;
    const double n_ctx_orig = spec.rope_n_ctx_orig > 0 ? spec.rope_n_ctx_orig : std::max(1.0, spec.n_ctx_train / factor);
    std::vector<float> factors;
    for (int i = 0; i < spec.head_dim; i += 2) {
        const double frequency = std::pow(static_cast<double>(spec.rope_base), -static_cast<double>(i) / spec.head_dim);
        const double wave = 2.0 * std::numbers::pi / frequency;
        const double smooth = (n_ctx_orig / wave - kLowFreqFactor) / (kHighFreqFactor - kLowFreqFactor);
        factors.push_back(
            static_cast<float>(1.0 / ((1.0 - std::clamp(smooth, 0.0, 1.0)) / factor + std::clamp(smooth, 0.0, 1.0))));
    }
    return factors;
}

class TensorList {
public:
    TensorList(const RandomModelSpec & spec, ggml_type type) : spec_(spec), type_(type) { build(); }
    std::vector<RandomTensorSpec> take() { return std::move(tensors_); }

private:
    void vector(const std::string & name, int64_t n, float mean, float std_dev) {
        tensors_.push_back({name + ".weight", {n, 1, 1}, 1, GGML_TYPE_F32, mean, std_dev, {}});
    }
    void norm(const std::string & name, int64_t n) { vector(name, n, 1.0F, kNormSpread); }
    void bias(const std::string & name, int64_t n) {
        tensors_.push_back({name + ".bias", {n, 1, 1}, 1, GGML_TYPE_F32, 0.0F, kBiasSpread, {}});
    }
    void matrix(const std::string & name, int64_t n_in, int64_t n_out, ggml_type type, int64_t n_experts = 0) {
        for (const ggml_type fallback : {GGML_TYPE_Q8_0, GGML_TYPE_F16}) {
            if (n_in % ggml_blck_size(type) != 0) { type = fallback; }
        }
        const float std_dev = 1.0F / std::sqrt(static_cast<float>(n_in));
        tensors_.push_back(
            {name + ".weight", {n_in, n_out, std::max<int64_t>(1, n_experts)}, n_experts > 0 ? 3 : 2, type, 0.0F, std_dev, {}});
    }
    void build() {
        matrix("token_embd", spec_.n_embd, spec_.n_vocab, type_);
        if (!spec_.tied) { tensors_.back().std_dev = 1.0F; }  // a tied one must also serve as the output matrix
        norm("output_norm", spec_.n_embd);
        if (!spec_.tied) { matrix("output", spec_.n_embd, spec_.n_vocab, type_); }
        if (spec_.llama3_freqs) {
            vector("rope_freqs", spec_.head_dim / 2, 0.0F, 0.0F);
            tensors_.back().values = llama3_factors(spec_);
        }
        for (int layer = 0; layer < spec_.n_layers; ++layer) { build_layer("blk." + std::to_string(layer) + "."); }
    }
    void build_layer(const std::string & blk) {
        const int64_t n_q = static_cast<int64_t>(spec_.n_heads) * spec_.head_dim;
        const int64_t n_kv = static_cast<int64_t>(spec_.n_kv_heads) * spec_.head_dim;
        norm(blk + "attn_norm", spec_.n_embd);
        matrix(blk + "attn_q", spec_.n_embd, n_q, type_);
        matrix(blk + "attn_k", spec_.n_embd, n_kv, type_);
        matrix(blk + "attn_v", spec_.n_embd, n_kv, type_);
        matrix(blk + "attn_output", n_q, spec_.n_embd, type_);
        if (spec_.arch == "qwen2") {
            bias(blk + "attn_q", n_q);
            bias(blk + "attn_k", n_kv);
            bias(blk + "attn_v", n_kv);
        }
        if (spec_.arch == "qwen3" || spec_.arch == "qwen3moe") {
            norm(blk + "attn_q_norm", spec_.head_dim);
            norm(blk + "attn_k_norm", spec_.head_dim);
        }
        norm(blk + "ffn_norm", spec_.n_embd);
        if (spec_.n_experts == 0) {
            matrix(blk + "ffn_gate", spec_.n_embd, spec_.n_ff, type_);
            matrix(blk + "ffn_up", spec_.n_embd, spec_.n_ff, type_);
            matrix(blk + "ffn_down", spec_.n_ff, spec_.n_embd, type_);
            return;
        }
        matrix(blk + "ffn_gate_inp", spec_.n_embd, spec_.n_experts, GGML_TYPE_F32);
        matrix(blk + "ffn_gate_exps", spec_.n_embd, spec_.n_ff_expert, type_, spec_.n_experts);
        matrix(blk + "ffn_up_exps", spec_.n_embd, spec_.n_ff_expert, type_, spec_.n_experts);
        matrix(blk + "ffn_down_exps", spec_.n_ff_expert, spec_.n_embd, type_, spec_.n_experts);
    }

    const RandomModelSpec & spec_;
    ggml_type type_;
    std::vector<RandomTensorSpec> tensors_;
};

}  // namespace

Result<std::vector<RandomTensorSpec>> list_random_tensors(const RandomModelSpec & spec) {
    PITH_RETURN_IF_ERROR(check_spec(spec));
    PITH_ASSIGN_OR_RETURN(const ggml_type type, find_weight_type(spec.weight_type));
    std::vector<RandomTensorSpec> tensors = TensorList(spec, type).take();
    if (static_cast<size_t>(spec.n_splits) > tensors.size()) {
        return invalid("n_splits is " + std::to_string(spec.n_splits) + ", more than the " + std::to_string(tensors.size()) +
                       " tensors");
    }
    return tensors;
}

}  // namespace pith
