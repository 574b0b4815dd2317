// exaone4.cpp - EXAONE 4.0 1.2B: norms behind attention and feed-forward, none before them. Stage: model.
// The 32B has windows in three layers of four, which no key need say.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_exaone4(const KeyReader & keys, Hparams & hp) {
    constexpr int kLayersOf32b = 64;
    if (hp.n_layers == kLayersOf32b) {
        return keys.unsupported("block_count", "is 64, as in EXAONE 4.0 32B, whose windows are not run yet");
    }
    return refuse_windows(keys);
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
