// minimax_m2.cpp - MiniMax M2: experts by a sigmoid router with a bias, heads normed as one, half of a head rotated. Stage:
// model.
#include "model/arch/architecture.h"

namespace pith {

Architecture minimax_m2_architecture() {
    return {"minimax-m2",
            {.rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kWhole,
             .experts = Experts::kAlways,
             .router = Router::kSigmoid,
             .router_bias = true}};
}

}  // namespace pith
