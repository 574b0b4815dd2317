// mistral3.cpp - Mistral 3 and Ministral 3: Llama with a temperature of queries by position, and YaRN said in full. Stage:
// model.
#include <cmath>
#include <initializer_list>

#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_mistral3(const KeyReader & keys, Hparams & hp) {
    // Ollama's files have names of their own, which come first here.
    const auto read = [&](std::initializer_list<const char *> names, float & out) -> Status {
        for (const char * name : names) { PITH_RETURN_IF_ERROR(keys.real(name, 0.0F, out)); }
        return {};
    };
    PITH_RETURN_IF_ERROR(read({"rope.scaling_beta", "attention.temperature_scale"}, hp.query_temperature));
    hp.query_temperature_length = hp.rope_n_ctx_orig;
    PITH_RETURN_IF_ERROR(read({"rope.scaling.beta_fast", "rope.scaling.yarn_beta_fast"}, hp.yarn_beta_fast));
    PITH_RETURN_IF_ERROR(read({"rope.scaling.beta_slow", "rope.scaling.yarn_beta_slow"}, hp.yarn_beta_slow));
    // The magnitude of all dimensions, by which the one of read_hparams.cpp is divided.
    float all_dims = 0.0F;
    PITH_RETURN_IF_ERROR(read({"rope.scaling.mscale_all_dim", "rope.scaling.yarn_log_multiplier"}, all_dims));
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
