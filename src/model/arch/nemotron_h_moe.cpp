// nemotron_h_moe.cpp - Nemotron H with experts, and one that every token goes through: Nemotron 3 Nano. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_nemotron_h_moe(const KeyReader & keys, Hparams & hp) {
    int n_latent = 0;
    PITH_RETURN_IF_ERROR(keys.integer("moe_latent_size", 0, 1 << 24, n_latent, false));
    if (n_latent != 0) {
        return keys.unsupported("moe_latent_size", "is " + std::to_string(n_latent) +
                                                       ": experts of another width than the "
                                                       "hidden state are not run yet");
    }
    PITH_RETURN_IF_ERROR(read_expert_weights(keys, hp));
    return read_nemotron_h(keys, hp);
}

}  // namespace

Architecture nemotron_h_moe_architecture() {
    return {"nemotron_h_moe",
            {.ffn_norm = nullptr,
             .rope = RopeKind::kNone,
             .activation = Activation::kSquaredRelu,
             .recurrent = Recurrent::kMamba2,
             .one_part_a_layer = true,
             .experts = Experts::kAlways,
             .router = Router::kSigmoid,
             .router_bias = true},
            read_nemotron_h_moe};
}

}  // namespace pith
