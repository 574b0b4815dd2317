// qwen3vlmoe.cpp - the text of Qwen 3 VL with experts in every layer. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen3vlmoe_architecture() {
    return {"qwen3vlmoe",
            {.rope = RopeKind::kHalves, .qk_norm = QkNorm::kPerHead, .experts = Experts::kAlways},
            [](const KeyReader & keys, Hparams & hp) {
                return read_rope_sections(keys, /*interleaved=*/true, /*required=*/true, hp);
            }};
}

}  // namespace pith
