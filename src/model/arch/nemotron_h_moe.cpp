// nemotron_h_moe.cpp - Nemotron H with experts, and one that every token goes through: Nemotron 3 Nano, and Super, whose other
// experts are narrower than the hidden state. Stage: model.
#include <algorithm>

#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_nemotron_h_moe(const KeyReader & keys, Hparams & hp) {
    constexpr int kMaxLatent = 1 << 24;
    // Ollama's files leave the key out, and name the matrix otherwise.
    hp.n_latent = static_cast<int>(std::min<int64_t>(keys.block_tensor_size(".ffn_latent_in.weight", 1), kMaxLatent));
    PITH_RETURN_IF_ERROR(keys.integer("moe_latent_size", 0, kMaxLatent, hp.n_latent, false));
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
