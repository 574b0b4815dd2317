// nemotron_h.cpp - Nemotron H: a layer is Mamba 2, attention without rotation, or a feed-forward without a gate. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture nemotron_h_architecture() {
    return {"nemotron_h",
            {.ffn_norm = nullptr,
             .rope = RopeKind::kNone,
             .activation = Activation::kSquaredRelu,
             .recurrent = Recurrent::kMamba2,
             .one_part_a_layer = true},
            read_nemotron_h};
}

}  // namespace pith
