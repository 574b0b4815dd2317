// qwen3vl.cpp - the text of Qwen 3 VL: Qwen 3 with RoPE in sections that take turns. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen3vl_architecture() {
    return {"qwen3vl", {.rope = RopeKind::kHalves, .qk_norm = QkNorm::kPerHead}, [](const KeyReader & keys, Hparams & hp) {
                return read_rope_sections(keys, /*interleaved=*/true, /*required=*/true, hp);
            }};
}

}  // namespace pith
