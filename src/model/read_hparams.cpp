// read_hparams.cpp - GGUF metadata → hyper-parameters. Stage: model.
// Keys and defaults as the GGUF specification and libllama have them.
#include "model/read_hparams.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace pith {
namespace {

struct ArchInfo {
    const char * name;
    Arch arch;
    bool rope_neox;
    bool experts_allowed;
    bool experts_required;
};

constexpr ArchInfo kArchs[] = {
    {"llama", Arch::kLlama, false, true, false},
    {"qwen2", Arch::kQwen2, true, false, false},
    {"qwen3", Arch::kQwen3, true, false, false},
    {"qwen3moe", Arch::kQwen3Moe, true, true, true},
};

// Limits: far above any model, and small enough that products of two fit 63 bits and row sizes fit an int.
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 65536;
constexpr int kMaxHeadDim = 65536;
constexpr int kMaxWidth = 1 << 24;
constexpr int kMaxVocab = 1 << 28;
constexpr int kMaxContext = 1 << 30;
constexpr int kMaxExperts = 65536;

constexpr int kGatingSoftmax = 1;  // of expert_gating_func; 0: not said

std::string number_text(double value) {
    std::string text = std::to_string(value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') { text.pop_back(); }
    return text;
}

// Reads "<architecture>.<key>".
class KeyReader {
public:
    KeyReader(const GgufHeader & header, const std::string & path, std::string prefix)
        : header_(header), path_(path), prefix_(std::move(prefix)) {}

    bool has(const std::string & key) const { return header_.find(prefix_ + key) != nullptr; }

    // Errors name the key; a missing key leaves `out` untouched unless it is required.
    Status integer(const std::string & key, int min, int max, int & out, bool required = true) const {
        std::optional<double> value;
        PITH_RETURN_IF_ERROR(number(key, required, true, value));
        if (!value) { return {}; }
        if (!(*value >= min && *value <= max) || *value != std::floor(*value)) {
            return bad(key, "is " + number_text(*value) + ": a whole number from " + std::to_string(min) + " to " +
                                std::to_string(max) + " is required");
        }
        out = static_cast<int>(*value);
        return {};
    }

    Status real(const std::string & key, float min, float & out, bool required = false) const {
        std::optional<double> value;
        PITH_RETURN_IF_ERROR(number(key, required, false, value));
        if (!value) { return {}; }
        if (!std::isfinite(*value) || *value < min || *value > 1e30) {
            return bad(key, "is " + number_text(*value) + ": a number of at least " + number_text(min) + " is required");
        }
        out = static_cast<float>(*value);
        return {};
    }

    Status bad(const std::string & key, const std::string & what) const {
        return {ErrorCode::kBadFile, "'" + path_ + "': metadata '" + prefix_ + key + "' " + what};
    }
    Status unsupported(const std::string & key, const std::string & what) const {
        return {ErrorCode::kUnsupported, "'" + path_ + "': metadata '" + prefix_ + key + "' " + what};
    }

private:
    Status number(const std::string & key, bool required, bool arrays, std::optional<double> & out) const {
        const GgufValue * value = header_.find(prefix_ + key);
        if (value == nullptr) { return required ? bad(key, "is missing (convert the model again)") : Status{}; }
        if (const auto * integer = std::get_if<int64_t>(value)) {
            out = static_cast<double>(*integer);
        } else if (const auto * real = std::get_if<double>(value)) {
            out = *real;
        } else if (const auto * array = std::get_if<GgufArray>(value); array != nullptr && arrays) {
            return from_array(key, *array, out);
        } else {
            return bad(key, "is no number");
        }
        return {};
    }

    // Per-layer values: one lane shape for all layers is what Pith runs.
    Status from_array(const std::string & key, const GgufArray & array, std::optional<double> & out) const {
        if (!array.is_numeric || array.numbers.empty()) { return bad(key, "is no usable list of numbers"); }
        const double first = array.numbers.front();
        for (const double x : array.numbers) {
            if (x != first) {
                return unsupported(key, "differs between layers (" + number_text(first) + " and " + number_text(x) +
                                            "): only models with the same value in all layers can be run");
            }
        }
        out = first;
        return {};
    }

    const GgufHeader & header_;
    const std::string & path_;
    std::string prefix_;
};

Result<const ArchInfo *> find_arch(const GgufHeader & header, const std::string & path) {
    const std::optional<std::string> name = header.string("general.architecture");
    if (!name) { return {ErrorCode::kBadFile, "'" + path + "': metadata 'general.architecture' is missing or no text"}; }
    std::string known;
    for (const ArchInfo & info : kArchs) {
        if (*name == info.name) { return &info; }
        known += (known.empty() ? "" : ", ") + std::string(info.name);
    }
    return {ErrorCode::kUnsupported,
            "'" + path + "': architecture '" + *name + "' is not supported (supported: " + known + ")"};
}

Status read_heads(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.integer("attention.head_count", 1, kMaxHeads, hp.n_heads));
    hp.n_kv_heads = hp.n_heads;
    PITH_RETURN_IF_ERROR(keys.integer("attention.head_count_kv", 1, kMaxHeads, hp.n_kv_heads, false));
    if (hp.n_heads % hp.n_kv_heads != 0) {
        return keys.bad("attention.head_count", "is " + std::to_string(hp.n_heads) +
                                                    ", no multiple of attention.head_count_kv, which is " +
                                                    std::to_string(hp.n_kv_heads));
    }
    const bool divides = hp.n_embd % hp.n_heads == 0;
    if (!divides && !(keys.has("attention.key_length") && keys.has("attention.value_length"))) {
        return keys.bad("embedding_length",
                        "is " + std::to_string(hp.n_embd) + ", no multiple of attention.head_count, which is " +
                            std::to_string(hp.n_heads) + ", and attention.key_length and value_length are missing");
    }
    hp.head_dim = hp.head_dim_v = hp.n_embd / hp.n_heads;
    PITH_RETURN_IF_ERROR(keys.integer("attention.key_length", 1, kMaxHeadDim, hp.head_dim, false));
    return keys.integer("attention.value_length", 1, kMaxHeadDim, hp.head_dim_v, false);
}

// libllama's rule: ggml's YaRN scales magnitudes by 1 + 0.1·ln(factor) itself; the factor handed over takes that into account,
// so that the product is the model's mscale (1 + 0.1·ln(factor) for factor > 1, else 1) times attn_factor. Paper: YaRN (Peng et
// al., 2023), section 3.4.
void set_yarn_factors(Hparams & hp, float attn_factor) {
    hp.yarn_ext_factor = 1.0F;
    const float factor = 1.0F / hp.rope_freq_scale;
    const float mscale = factor <= 1.0F ? 1.0F : 0.1F * std::log(factor) + 1.0F;
    hp.yarn_attn_factor = mscale * (1.0F / (1.0F + 0.1F * std::log(factor))) * attn_factor;
}

Status read_rope(const KeyReader & keys, const std::optional<std::string> & scaling, Hparams & hp) {
    hp.n_rot = hp.head_dim;
    PITH_RETURN_IF_ERROR(keys.integer("rope.dimension_count", 2, kMaxHeadDim, hp.n_rot, false));
    if (hp.n_rot > hp.head_dim || hp.n_rot % 2 != 0) {
        return keys.bad("rope.dimension_count", "is " + std::to_string(hp.n_rot) + ": an even number up to the head size, " +
                                                    std::to_string(hp.head_dim) + ", is required");
    }
    PITH_RETURN_IF_ERROR(keys.real("rope.freq_base", 1e-6F, hp.rope_base));
    float factor = 0.0F;
    PITH_RETURN_IF_ERROR(keys.real("rope.scale_linear", 0.0F, factor));  // the old name
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.factor", 0.0F, factor));
    float attn_factor = 1.0F;
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.attn_factor", 0.0F, attn_factor));
    hp.rope_n_ctx_orig = hp.n_ctx_train;
    PITH_RETURN_IF_ERROR(keys.integer("rope.scaling.original_context_length", 1, kMaxContext, hp.rope_n_ctx_orig, false));

    const std::string type = scaling.value_or("linear");
    if (type != "none" && type != "linear" && type != "yarn") {
        return keys.unsupported("rope.scaling.type", "is '" + type + "' (supported: none, linear, yarn)");
    }
    hp.yarn_attn_factor = attn_factor;
    if (type != "none" && factor != 0.0F) { hp.rope_freq_scale = 1.0F / factor; }
    if (type == "yarn") {
        hp.rope_scaling = RopeScaling::kYarn;
        set_yarn_factors(hp, attn_factor);
    } else if (hp.rope_freq_scale != 1.0F) {
        hp.rope_scaling = RopeScaling::kLinear;
    }
    return {};
}

Status read_experts(const KeyReader & keys, const ArchInfo & arch, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.integer("expert_count", 0, kMaxExperts, hp.n_experts, arch.experts_required));
    if (hp.n_experts == 0) {
        if (arch.experts_required) { return keys.bad("expert_count", "is 0: this architecture needs experts"); }
        return {};
    }
    if (!arch.experts_allowed) {
        return keys.unsupported("expert_count", "is " + std::to_string(hp.n_experts) + ": this architecture has no experts");
    }
    PITH_RETURN_IF_ERROR(keys.integer("expert_used_count", 1, hp.n_experts, hp.n_experts_used));
    int n_groups = 1;
    int gating = 0;
    PITH_RETURN_IF_ERROR(keys.integer("expert_group_count", 0, kMaxExperts, n_groups, false));
    PITH_RETURN_IF_ERROR(keys.integer("expert_gating_func", 0, 255, gating, false));
    if (n_groups > 1) { return keys.unsupported("expert_group_count", "is " + std::to_string(n_groups) + " (supported: 1)"); }
    if (gating > kGatingSoftmax) {
        return keys.unsupported("expert_gating_func", "is " + std::to_string(gating) + " (supported: 1, softmax)");
    }
    hp.norm_expert_weights = true;
    if (arch.arch == Arch::kLlama) {
        hp.n_ff_expert = hp.n_ff;
    } else {
        hp.n_ff_expert = hp.n_ff / hp.n_experts_used;  // old files give only the width of all chosen experts together
        PITH_RETURN_IF_ERROR(keys.integer("expert_feed_forward_length", 1, kMaxWidth, hp.n_ff_expert, hp.n_ff_expert == 0));
    }
    hp.n_ff = 0;
    return {};
}

// Keys that change the result and that no model of these architectures is known to set: refused rather than ignored.
Status refuse_unknown_scales(const KeyReader & keys) {
    for (const char * key : {"attention.scale", "expert_weights_scale", "logit_scale", "residual_scale", "embedding_scale",
                             "rope.scaling.yarn_log_multiplier"}) {
        float value = 0.0F;
        PITH_RETURN_IF_ERROR(keys.real(key, -1e30F, value));
        if (value != 0.0F && value != 1.0F) {
            return keys.unsupported(key, "is " + number_text(value) + ", which Pith does not apply");
        }
    }
    return {};
}

Status read_sizes(const GgufHeader & header, const std::string & path, const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.integer("block_count", 1, kMaxLayers, hp.n_layers));
    PITH_RETURN_IF_ERROR(keys.integer("context_length", 1, kMaxContext, hp.n_ctx_train));
    PITH_RETURN_IF_ERROR(keys.integer("embedding_length", 1, kMaxWidth, hp.n_embd));
    PITH_RETURN_IF_ERROR(keys.integer("vocab_size", 1, kMaxVocab, hp.n_vocab, false));
    if (const GgufValue * value = header.find("tokenizer.ggml.tokens")) {
        const auto * tokens = std::get_if<GgufArray>(value);
        if (tokens == nullptr || tokens->n < 1 || tokens->n > kMaxVocab) {
            return {ErrorCode::kBadFile, "'" + path + "': metadata 'tokenizer.ggml.tokens' is no usable list of tokens"};
        }
        hp.n_vocab = static_cast<int>(tokens->n);
    }
    return keys.real("attention.layer_norm_rms_epsilon", 0.0F, hp.rms_eps, true);
}

}  // namespace

Result<Hparams> read_hparams(const GgufHeader & header, const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const ArchInfo * arch, find_arch(header, path));
    const KeyReader keys(header, path, std::string(arch->name) + ".");
    Hparams hp;
    hp.arch = arch->arch;
    hp.arch_name = arch->name;
    hp.name = header.string("general.name").value_or("");
    hp.rope_neox = arch->rope_neox;
    PITH_RETURN_IF_ERROR(read_sizes(header, path, keys, hp));
    PITH_RETURN_IF_ERROR(read_heads(keys, hp));
    PITH_RETURN_IF_ERROR(keys.integer("feed_forward_length", 1, kMaxWidth, hp.n_ff, !arch->experts_required));
    PITH_RETURN_IF_ERROR(read_experts(keys, *arch, hp));
    PITH_RETURN_IF_ERROR(read_rope(keys, header.string(std::string(arch->name) + ".rope.scaling.type"), hp));
    PITH_RETURN_IF_ERROR(refuse_unknown_scales(keys));
    return hp;
}

}  // namespace pith
