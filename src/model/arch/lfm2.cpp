// lfm2.cpp - LFM 2: short convolutions in most layers, attention in the others; the norm behind the last layer goes by the
// embedding's name. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture lfm2_architecture() {
    return {"lfm2",
            {.output_norm = "token_embd_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead,
             .recurrent = Recurrent::kShortConv},
            read_short_convolutions};
}

}  // namespace pith
