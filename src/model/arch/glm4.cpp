// glm4.cpp - GLM 4 (9B, 32B): norms before and behind attention and feed-forward, half of a head rotated. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture glm4_architecture() {
    return {"glm4",
            {.attn_post_norm = "post_attention_norm", .ffn_post_norm = "post_ffw_norm", .gate_in_up = true},
            [](const KeyReader & keys, Hparams & hp) {
                return read_rope_sections(keys, /*interleaved=*/false, /*required=*/false, hp);
            }};
}

}  // namespace pith
