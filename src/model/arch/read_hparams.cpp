// read_hparams.cpp - GGUF metadata → hyper-parameters. Stage: model.
// Keys and defaults as the GGUF specification and libllama have them.
#include "model/arch/read_hparams.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/shape.h"
#include "model/arch/architecture.h"
#include "model/arch/key_reader.h"

namespace pith {
namespace {

// Limits: far above any model, and small enough that products of two fit 63 bits and row sizes fit an int.
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 65536;
constexpr int kMaxHeadDim = 65536;
constexpr int kMaxWidth = 1 << 24;
constexpr int kMaxVocab = 1 << 28;
constexpr int kMaxContext = 1 << 30;
constexpr int kMaxExperts = 65536;

// Of expert_gating_func; 0: not said.
constexpr int kGatingSoftmax = 1;
constexpr int kGatingSigmoid = 2;
constexpr int kGatingSoftmaxOfBest = 3;

Result<const Architecture *> read_architecture(const GgufHeader & header, const std::string & path) {
    const std::optional<std::string> name = header.string("general.architecture");
    if (!name) { return {ErrorCode::kBadFile, "'" + path + "': metadata 'general.architecture' is missing or no text"}; }
    if (const Architecture * known = find_architecture(*name)) { return known; }
    return {ErrorCode::kUnsupported,
            "'" + path + "': architecture '" + *name + "' is not supported (supported: " + architecture_names() + ")"};
}

Status no_multiple(const KeyReader & keys, int n_heads, int n_kv_heads) {
    return keys.bad(
        "attention.head_count",
        "is " + std::to_string(n_heads) + ", no multiple of attention.head_count_kv, which is " + std::to_string(n_kv_heads));
}

// attention.head_count_kv, a number a layer: 0 where it is recurrent.
Status read_kv_heads_of_layers(const KeyReader & keys, Hparams & hp) {
    constexpr const char * kKey = "attention.head_count_kv";
    std::vector<double> list;
    PITH_RETURN_IF_ERROR(keys.numbers(kKey, hp.layers.size(), list, true, hp.n_more_blocks()));
    const int least = hp.form.recurrent == Recurrent::kNone ? 1 : 0;
    int n_heads = 0;
    for (size_t l = 0; l < list.size(); ++l) {
        if (!(list[l] >= least && list[l] <= kMaxHeads)) {
            return keys.bad(kKey,
                            "has a number that is not from " + std::to_string(least) + " to " + std::to_string(kMaxHeads));
        }
        const int n = static_cast<int>(list[l]);
        hp.layers[l].recurrent = n == 0;
        hp.layers[l].n_kv_heads = n;
        if (n == 0) { continue; }
        if (hp.n_heads % n != 0) { return no_multiple(keys, hp.n_heads, n); }
        n_heads = n;
    }
    if (n_heads == 0) { return keys.unsupported(kKey, "is 0 in every layer, so there is no attention"); }
    hp.n_kv_heads = n_heads;
    return {};
}

// Lanes that policies govern are alike.
Status settle_kv_heads(const KeyReader & keys, Hparams & hp) {
    int n_heads = 0;
    for (int l = 0; l < hp.n_layers; ++l) {
        if (!hp.governs(l)) { continue; }
        const int n = hp.n_kv_heads_of(l);
        if (n_heads != 0 && n != n_heads) {
            return keys.unsupported("attention.head_count_kv",
                                    "gives attention of " + std::to_string(n_heads) + " and of " + std::to_string(n) +
                                        " heads: of layers that see everything only such with the same number are run");
        }
        n_heads = n;
    }
    hp.n_kv_heads = n_heads;
    return {};
}

Status read_heads(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.integer("attention.head_count", 1, kMaxHeads, hp.n_heads));
    hp.n_kv_heads = hp.n_heads;
    const bool may_differ = hp.form.recurrent != Recurrent::kNone || hp.form.unlike_heads;
    if (may_differ && keys.is_list("attention.head_count_kv")) {
        PITH_RETURN_IF_ERROR(read_kv_heads_of_layers(keys, hp));
    } else {
        PITH_RETURN_IF_ERROR(keys.integer("attention.head_count_kv", 1, kMaxHeads, hp.n_kv_heads, false));
    }
    if (hp.n_heads % hp.n_kv_heads != 0) { return no_multiple(keys, hp.n_heads, hp.n_kv_heads); }
    const bool divides = hp.n_embd % hp.n_heads == 0;
    if (!divides && !(keys.has("attention.key_length") && keys.has("attention.value_length"))) {
        return keys.bad("embedding_length",
                        "is " + std::to_string(hp.n_embd) + ", no multiple of attention.head_count, which is " +
                            std::to_string(hp.n_heads) + ", and attention.key_length and value_length are missing");
    }
    hp.head_dim = hp.head_dim_v = hp.n_embd / hp.n_heads;
    PITH_RETURN_IF_ERROR(keys.integer("attention.key_length", 1, kMaxHeadDim, hp.head_dim, false));
    hp.attention_scale = usual_attention_scale(hp.head_dim);
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

Status read_rope(const KeyReader & keys, Hparams & hp) {
    hp.n_rot = hp.head_dim;
    if (hp.form.rope == RopeKind::kNone) {
        for (LayerHparams & layer : hp.layers) { layer.rotates = false; }
        return {};
    }
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

    const std::string type = keys.text("rope.scaling.type").value_or(factor != 0.0F ? hp.form.rope_scaling : "linear");
    if (type != "none" && type != "linear" && type != "yarn" && type != "longrope") {
        return keys.unsupported("rope.scaling.type", "is '" + type + "' (supported: none, linear, yarn, longrope)");
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

// feed_forward_length: a number, or a list of one a layer, which may be 0 where each layer is one of several things.
Status read_widths(const KeyReader & keys, Hparams & hp) {
    constexpr const char * kKey = "feed_forward_length";
    if (!keys.differs(kKey)) {
        PITH_RETURN_IF_ERROR(keys.integer(kKey, 1, kMaxWidth, hp.n_ff, hp.form.experts != Experts::kAlways));
        for (LayerHparams & layer : hp.layers) { layer.n_ff = hp.n_ff; }
        return {};
    }
    const int least = hp.form.one_part_a_layer ? 0 : 1;
    std::vector<double> list;
    PITH_RETURN_IF_ERROR(keys.numbers(kKey, hp.layers.size(), list, true, hp.n_more_blocks()));
    for (size_t l = 0; l < list.size(); ++l) {
        if (!(list[l] >= least && list[l] <= kMaxWidth)) {
            return keys.bad(kKey,
                            "has a number that is not from " + std::to_string(least) + " to " + std::to_string(kMaxWidth));
        }
        hp.layers[l].n_ff = static_cast<int>(list[l]);
        hp.n_ff = std::max(hp.n_ff, hp.layers[l].n_ff);
    }
    return {};
}

Status read_experts(const KeyReader & keys, Hparams & hp) {
    const bool always = hp.form.experts == Experts::kAlways;
    PITH_RETURN_IF_ERROR(keys.integer("expert_count", 0, kMaxExperts, hp.n_experts, always));
    if (hp.n_experts == 0) {
        if (always) { return keys.bad("expert_count", "is 0: this architecture needs experts"); }
        return {};
    }
    if (hp.form.experts == Experts::kNone) {
        return keys.unsupported("expert_count", "is " + std::to_string(hp.n_experts) + ": this architecture has no experts");
    }
    PITH_RETURN_IF_ERROR(keys.integer("expert_used_count", 1, hp.n_experts, hp.n_experts_used));
    int n_groups = 1;
    int gating = 0;
    PITH_RETURN_IF_ERROR(keys.integer("expert_group_count", 0, kMaxExperts, n_groups, false));
    PITH_RETURN_IF_ERROR(keys.integer("expert_gating_func", 0, 255, gating, false));
    if (n_groups > 1) { return keys.unsupported("expert_group_count", "is " + std::to_string(n_groups) + " (supported: 1)"); }
    // Both are known where the architecture has the other one; elsewhere the key has never said anything but softmax.
    const bool knows_sigmoid = hp.form.router == Router::kSigmoid;
    const bool is_of_best = gating == kGatingSoftmaxOfBest && hp.form.router == Router::kSoftmaxOfBest;
    if (!is_of_best && gating > (knows_sigmoid ? kGatingSigmoid : kGatingSoftmax)) {
        return keys.unsupported("expert_gating_func", "is " + std::to_string(gating) + " (supported: 1, softmax" +
                                                          (knows_sigmoid ? ", and 2, sigmoid)" : ")"));
    }
    const bool says_softmax = gating == kGatingSoftmax && knows_sigmoid;
    hp.router = says_softmax ? Router::kSoftmax : hp.form.router;
    hp.norm_expert_weights = true;
    if (hp.form.experts == Experts::kLikeMixtral) {
        hp.n_ff_expert = hp.n_ff;
    } else {
        hp.n_ff_expert = hp.n_ff / hp.n_experts_used;  // old files give only the width of all chosen experts together
        const int64_t n_rows = keys.tensor_size("blk.0.ffn_gate_exps.weight", 1);  // others nothing
        if (n_rows > 0) { hp.n_ff_expert = static_cast<int>(std::min<int64_t>(n_rows, kMaxWidth)); }
        PITH_RETURN_IF_ERROR(keys.integer("expert_feed_forward_length", 1, kMaxWidth, hp.n_ff_expert, hp.n_ff_expert == 0));
    }
    int n_shared = 0;
    PITH_RETURN_IF_ERROR(keys.integer("expert_shared_count", 0, kMaxExperts, n_shared, false));
    if (int64_t{n_shared} * hp.n_ff_expert > kMaxWidth) {
        return keys.bad("expert_shared_count", "is " + std::to_string(n_shared) + ": too many of this width");
    }
    hp.n_ff_shared = n_shared * hp.n_ff_expert;
    PITH_RETURN_IF_ERROR(keys.integer("expert_shared_feed_forward_length", 0, kMaxWidth, hp.n_ff_shared, false));
    int n_dense = 0;
    PITH_RETURN_IF_ERROR(keys.integer("leading_dense_block_count", 0, hp.n_layers, n_dense, false));
    for (size_t l = static_cast<size_t>(n_dense); l < hp.layers.size(); ++l) { hp.layers[l].has_experts = true; }
    if (n_dense == 0 && !hp.form.experts_beside_dense) { hp.n_ff = 0; }
    return {};
}

// Keys that change the result and that no model of these architectures is known to set: refused rather than ignored.
Status refuse_unknown_scales(const KeyReader & keys) {
    for (const char * key : {"attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "expert_weights_scale",
                             "logit_scale", "residual_scale", "embedding_scale", "rope.scaling.yarn_log_multiplier"}) {
        PITH_RETURN_IF_ERROR(keys.refuse_unread(key));
    }
    return {};
}

Status read_sizes(const GgufHeader & header, const std::string & path, const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.integer("block_count", 1, kMaxLayers, hp.n_layers));
    PITH_RETURN_IF_ERROR(keys.integer("nextn_predict_layers", 0, hp.n_layers - 1, hp.n_nextn_layers, false));
    hp.n_layers -= hp.n_nextn_layers;  // they are among the blocks counted
    hp.layers.resize(static_cast<size_t>(hp.n_layers));
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
    const bool is_rms = hp.form.norm == NormKind::kRms;
    const bool required = hp.form.norm_eps == 0.0F;
    if (!required) { hp.norm_eps = hp.form.norm_eps; }
    return keys.real(is_rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0.0F, hp.norm_eps, required);
}

}  // namespace

Result<Hparams> read_hparams(const GgufHeader & header, const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const Architecture * arch, read_architecture(header, path));
    Hparams hp;
    hp.arch_name = header.string("general.architecture").value_or("");  // which may be another name of it
    const KeyReader keys(header, path, hp.arch_name + ".");
    hp.form = arch->form;
    hp.name = header.string("general.name").value_or("");
    PITH_RETURN_IF_ERROR(read_sizes(header, path, keys, hp));
    PITH_RETURN_IF_ERROR(read_heads(keys, hp));
    PITH_RETURN_IF_ERROR(read_widths(keys, hp));
    PITH_RETURN_IF_ERROR(read_experts(keys, hp));
    PITH_RETURN_IF_ERROR(read_rope(keys, hp));
    if (arch->read != nullptr) { PITH_RETURN_IF_ERROR(arch->read(keys, hp)); }
    PITH_RETURN_IF_ERROR(refuse_unknown_scales(keys));
    if (hp.n_governed_layers() == 0) {
        return {ErrorCode::kUnsupported,
                "'" + path + "': " +
                    (hp.n_recurrent_layers() == 0 ? "every layer sees a window only" : "no layer sees all of the text") +
                    ", so there is nothing for a policy to keep"};
    }
    PITH_RETURN_IF_ERROR(settle_kv_heads(keys, hp));
    return hp;
}

}  // namespace pith
