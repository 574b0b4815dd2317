// gpt_oss.cpp - gpt-oss 20b and 120b: narrow windows in every other layer, sinks, biases everywhere, experts. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_gpt_oss(const KeyReader & keys, Hparams & hp) {
    return read_windows(keys, /*period=*/2, /*required=*/true, 0, hp);
}

}  // namespace

Architecture gpt_oss_architecture() {
    return {"gpt-oss",
            {.ffn_norm = "post_attention_norm",
             .rope = RopeKind::kHalves,
             .rope_scaling = "yarn",
             .sinks = true,
             .activation = Activation::kClamped,
             .experts = Experts::kAlways,
             .router = Router::kSoftmaxOfBest,
             .expert_biases = true},
            read_gpt_oss};
}

}  // namespace pith
