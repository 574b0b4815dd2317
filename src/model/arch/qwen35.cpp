// qwen35.cpp - Qwen 3.5: gated delta nets in three layers of four, a gate behind the attention of the others. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_qwen35(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_rope_sections(keys, /*interleaved=*/true, /*required=*/true, hp));
    return read_delta_nets(keys, hp);
}

}  // namespace

Architecture qwen35_architecture() {
    return {"qwen35",
            {.ffn_norm = "post_attention_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kDeltaNet,
             .output_gate = true},
            read_qwen35};
}

}  // namespace pith
