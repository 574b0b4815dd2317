// olmo2.cpp - OLMo 2: norms behind attention and feed-forward, and of all heads' queries and keys as one. Stage: model.
// OLMo 3 has the same name, and windows.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture olmo2_architecture() {
    return {"olmo2",
            {.attn_norm = nullptr,
             .attn_post_norm = "post_attention_norm",
             .ffn_norm = nullptr,
             .ffn_post_norm = "post_ffw_norm",
             .rope = RopeKind::kHalves,
             .qk_norm = QkNorm::kWhole},
            [](const KeyReader & keys, Hparams &) { return refuse_windows(keys); }};
}

}  // namespace pith
