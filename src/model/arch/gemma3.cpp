// gemma3.cpp - Gemma 3: windows in five layers of six, which rotate by a base of their own; norms on both sides. Stage: model.
#include <algorithm>
#include <cmath>

#include "core/shape.h"
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

constexpr float kWindowRopeBase = 10000.0F;

// Ollama's files, which are known by the epsilon that they leave out: the bases have other names or none, nothing says that all
// sizes but the 1B, whose texts are shorter, scale by 8, and the tokeniser may have tokens for images without an embedding.
Status read_ollamas_gemma3(const KeyReader & keys, Hparams & hp, float & window_base) {
    constexpr int kScaledContext = 131072;
    constexpr float kFactor = 8.0F;
    if (keys.has("attention.layer_norm_rms_epsilon")) { return {}; }
    if (!keys.has("rope.freq_base")) {
        hp.rope_base = 1000000.0F;
        PITH_RETURN_IF_ERROR(keys.real("rope.global.freq_base", 1e-6F, hp.rope_base));
    }
    PITH_RETURN_IF_ERROR(keys.real("rope.local.freq_base", 1e-6F, window_base));
    if (!keys.has("rope.scaling.factor") && hp.n_ctx_train >= kScaledContext) {
        hp.rope_scaling = RopeScaling::kLinear;
        hp.rope_freq_scale = 1.0F / kFactor;
    }
    const int64_t n_rows = keys.tensor_size("token_embd.weight", 1);
    if (n_rows > 0) { hp.n_vocab = static_cast<int>(std::min<int64_t>(hp.n_vocab, n_rows)); }
    return {};
}

Status read_gemma3(const KeyReader & keys, Hparams & hp) {
    constexpr int kLayersOf27b = 62;  // the only size whose queries are scaled by D / H
    hp.embedding_scale = std::sqrt(static_cast<float>(hp.n_embd));
    if (hp.n_layers == kLayersOf27b) { hp.attention_scale = usual_attention_scale(hp.n_embd / hp.n_heads); }
    PITH_RETURN_IF_ERROR(read_softcaps(keys, 0.0F, 0.0F, hp));
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/6, /*required=*/false, 0, hp));
    float base = kWindowRopeBase;
    PITH_RETURN_IF_ERROR(read_ollamas_gemma3(keys, hp, base));
    PITH_RETURN_IF_ERROR(keys.real("rope.freq_base_swa", 1e-6F, base));
    for (LayerHparams & layer : hp.layers) {
        if (layer.window == 0) { continue; }
        layer.rope_base = base;
        layer.rope_scales = false;
    }
    return {};
}

}  // namespace

Architecture gemma3_architecture() {
    return {"gemma3",
            {.attn_post_norm = "post_attention_norm",
             .ffn_post_norm = "post_ffw_norm",
             .norm_eps = 1e-6F,
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .activation = Activation::kGelu},
            read_gemma3};
}

}  // namespace pith
