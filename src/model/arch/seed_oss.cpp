// seed_oss.cpp - Seed-OSS 36B: Qwen 2 with heads wider than D / H; the feed-forward's norm has another name. Stage: model.
#include "model/arch/architecture.h"

namespace pith {

Architecture seed_oss_architecture() {
    return {"seed_oss", {.ffn_norm = "post_attention_norm", .rope = RopeKind::kHalves}};
}

}  // namespace pith
