// gemma3.cpp - Gemma 3: windows in five layers of six, which rotate by a base of their own; norms on both sides. Stage: model.
#include <cmath>

#include "core/shape.h"
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

constexpr float kWindowRopeBase = 10000.0F;

Status read_gemma3(const KeyReader & keys, Hparams & hp) {
    constexpr int kLayersOf27b = 62;  // the only size whose queries are scaled by D / H
    hp.embedding_scale = std::sqrt(static_cast<float>(hp.n_embd));
    if (hp.n_layers == kLayersOf27b) { hp.attention_scale = usual_attention_scale(hp.n_embd / hp.n_heads); }
    PITH_RETURN_IF_ERROR(read_softcaps(keys, 0.0F, 0.0F, hp));
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/6, /*required=*/false, 0, hp));
    float base = kWindowRopeBase;
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
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .activation = Activation::kGelu},
            read_gemma3};
}

}  // namespace pith
