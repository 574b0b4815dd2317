// qwen3next.cpp - Qwen 3 Next: as Qwen 3.5 with experts; neighbouring value heads share a key head. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen3next_architecture() {
    return {"qwen3next",
            {.ffn_norm = "post_attention_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kDeltaNet,
             .neighbours_share_keys = true,
             .output_gate = true,
             .experts = Experts::kAlways,
             .shared_expert_gate = true},
            read_delta_nets};
}

}  // namespace pith
