// cohere2.cpp - Command R7B, Command A: windows in three layers of four, which alone rotate; LayerNorms, and a feed-forward
// beside the attention. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_cohere2(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(keys.real("logit_scale", 0.0F, hp.logit_scale));
    if (hp.logit_scale == 0.0F) { hp.logit_scale = 1.0F; }
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/4, /*required=*/true, 0, hp));
    for (LayerHparams & layer : hp.layers) { layer.rotates = layer.window > 0; }
    return {};
}

}  // namespace

Architecture cohere2_architecture() {
    return {"cohere2", {.norm = NormKind::kLayer, .ffn_norm = nullptr, .parallel = true}, read_cohere2};
}

}  // namespace pith
