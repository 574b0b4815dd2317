// qwen35moe.cpp - Qwen 3.5 with experts, and one that every token goes through by a gate. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_qwen35moe(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_rope_sections(keys, /*interleaved=*/true, /*required=*/true, hp));
    return read_delta_nets(keys, hp);
}

}  // namespace

Architecture qwen35moe_architecture() {
    return {"qwen35moe",
            {.ffn_norm = "post_attention_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kDeltaNet,
             .output_gate = true,
             .experts = Experts::kAlways,
             .shared_expert_gate = true},
            read_qwen35moe};
}

}  // namespace pith
