// gemma2.cpp - Gemma 2: windows in every other layer, soft-caps of scores and logits, norms on both sides. Stage: model.
#include <cmath>

#include "core/shape.h"
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

constexpr int kWindow = 4096;  // of files that do not say
constexpr float kAttentionSoftcap = 50.0F;
constexpr float kLogitSoftcap = 30.0F;

Status read_gemma2(const KeyReader & keys, Hparams & hp) {
    constexpr int kLayersOf27b = 46;  // the only size whose queries are scaled by D / H
    hp.embedding_scale = std::sqrt(static_cast<float>(hp.n_embd));
    if (hp.n_layers == kLayersOf27b) { hp.attention_scale = usual_attention_scale(hp.n_embd / hp.n_heads); }
    PITH_RETURN_IF_ERROR(read_softcaps(keys, kAttentionSoftcap, kLogitSoftcap, hp));
    return read_windows(keys, /*period=*/2, /*required=*/false, kWindow, hp);
}

}  // namespace

Architecture gemma2_architecture() {
    return {"gemma2",
            {.attn_post_norm = "post_attention_norm",
             .ffn_post_norm = "post_ffw_norm",
             .rope = RopeKind::kHalves,
             .activation = Activation::kGelu},
            read_gemma2};
}

}  // namespace pith
