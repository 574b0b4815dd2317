// qwen2.cpp - Qwen 2 and 2.5: halves turn, and queries, keys and values have biases. Stage: model.
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen2_architecture() {
    return {"qwen2", {.rope = RopeKind::kHalves, .qkv_biases = true}};
}

}  // namespace pith
