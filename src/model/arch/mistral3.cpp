// mistral3.cpp - Mistral 3 and Ministral 3: Llama with a temperature of queries by position, and YaRN said in full. Stage:
// model.
#include <cmath>

#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_mistral3(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.real("attention.temperature_scale", 0.0F, hp.query_temperature));
    hp.query_temperature_length = hp.rope_n_ctx_orig;
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.yarn_beta_fast", 0.0F, hp.yarn_beta_fast));
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.yarn_beta_slow", 0.0F, hp.yarn_beta_slow));
    // The magnitude of all dimensions, by which the one of read_hparams.cpp is divided.
    float all_dims = 0.0F;
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.yarn_log_multiplier", 0.0F, all_dims));
    const float factor = 1.0F / hp.rope_freq_scale;
    if (hp.rope_scaling == RopeScaling::kYarn && all_dims != 0.0F && factor > 1.0F) {
        hp.yarn_attn_factor /= 0.1F * all_dims * std::log(factor) + 1.0F;
    }
    return {};
}

}  // namespace

Architecture mistral3_architecture() {
    return {"mistral3", {.experts = Experts::kLikeMixtral}, read_mistral3};
}

}  // namespace pith
