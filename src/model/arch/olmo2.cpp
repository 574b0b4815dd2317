// olmo2.cpp - OLMo 2: norms behind attention and feed-forward, and of all heads' queries and keys as one. OLMo 3 has the same
// name, and windows in three layers of four, which YaRN leaves alone. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_olmo2(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/4, /*required=*/false, 0, hp));
    for (LayerHparams & layer : hp.layers) { layer.rope_scales = layer.window == 0; }
    return {};
}

}  // namespace

Architecture olmo2_architecture() {
    return {"olmo2",
            {.attn_norm = nullptr,
             .attn_post_norm = "post_attention_norm",
             .ffn_norm = nullptr,
             .ffn_post_norm = "post_ffw_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kWhole},
            read_olmo2};
}

}  // namespace pith
