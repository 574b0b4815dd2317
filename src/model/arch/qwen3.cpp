// qwen3.cpp - Qwen 3: norms of queries and keys in place of Qwen 2's biases. Stage: model.
#include "model/arch/architecture.h"

namespace pith {

Architecture qwen3_architecture() {
    return {"qwen3", {.rope = RopeKind::kHalves, .qk_norm = QkNorm::kPerHead}};
}

}  // namespace pith
