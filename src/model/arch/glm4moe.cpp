// glm4moe.cpp - GLM 4.5 to 4.7: experts behind a few dense layers, one that every token goes through, a sigmoid router with a
// bias. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_glm4moe(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_expert_weights(keys, hp));
    return read_rope_sections(keys, /*interleaved=*/false, /*required=*/false, hp);
}

}  // namespace

Architecture glm4moe_architecture() {
    return {"glm4moe",
            {.ffn_norm = "post_attention_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kMayBePerHead,
             .experts = Experts::kAlways,
             .router = Router::kSigmoid,
             .router_bias = true},
            read_glm4moe};
}

}  // namespace pith
