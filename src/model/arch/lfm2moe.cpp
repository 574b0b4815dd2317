// lfm2moe.cpp - LFM 2 with experts behind its leading layers. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture lfm2moe_architecture() {
    return {"lfm2moe",
            {.output_norm = "token_embd_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kShortConv,
             .experts = Experts::kAlways,
             .router = Router::kSigmoid,
             .router_bias = true},
            read_short_convolutions};
}

}  // namespace pith
