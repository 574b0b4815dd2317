// exaone4.cpp - EXAONE 4.0: norms behind attention and feed-forward, none before them. The 32B has windows in three layers of
// four, which alone rotate, and no key need say so. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

constexpr int kLayersOf32b = 64;
constexpr int kWindowOf32b = 4096;

Status read_exaone4(const KeyReader & keys, Hparams & hp) {
    if (hp.n_layers != kLayersOf32b) { return refuse_windows(keys); }
    PITH_RETURN_IF_ERROR(read_windows(keys, /*period=*/4, /*required=*/false, kWindowOf32b, hp));
    for (LayerHparams & layer : hp.layers) { layer.rotates = layer.window > 0; }
    return {};
}

}  // namespace

Architecture exaone4_architecture() {
    return {"exaone4",
            {.attn_norm = nullptr,
             .attn_post_norm = "post_attention_norm",
             .ffn_norm = nullptr,
             .ffn_post_norm = "post_ffw_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kPerHead},
            read_exaone4};
}

}  // namespace pith
