// qwen2vl.cpp - the text of Qwen 2 VL and 2.5 VL: Qwen 2 with RoPE in sections. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen2vl_architecture() {
    return {"qwen2vl", {.rope = RopeKind::kHalves}, [](const KeyReader & keys, Hparams & hp) {
                return read_rope_sections(keys, /*interleaved=*/false, /*required=*/true, hp);
            }};
}

}  // namespace pith
