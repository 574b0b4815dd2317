// qwen3moe.cpp - Qwen 3 with experts in every layer. Stage: model.
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen3moe_architecture() {
    return {"qwen3moe", {.rope = RopeKind::kHalves, .qk_norm = QkNorm::kPerHead, .experts = Experts::kAlways}};
}

}  // namespace pith
