// hunyuan_dense.cpp - Hunyuan 0.5B to 7B: queries and keys are normed behind the rotation. Stage: model.
#include <cmath>

#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_hunyuan(const KeyReader & keys, Hparams & hp) {
    // The norm takes back what YaRN does to lengths, and evidence counts on lengths that a rotation keeps.
    if (hp.rope_scaling == RopeScaling::kYarn) {
        return keys.unsupported("rope.scaling.type", "is 'yarn' (supported: none, linear)");
    }
    float alpha = 0.0F;  // frequencies for longer texts ("NTK-aware"), where the converter has not put it into freq_base
    PITH_RETURN_IF_ERROR(keys.real("rope.scaling.alpha", 0.0F, alpha));
    const auto d = static_cast<float>(hp.head_dim);
    if (alpha > 0.0F) { hp.rope_base *= std::pow(alpha, d / (d - 2.0F)); }
    return {};
}

}  // namespace

Architecture hunyuan_dense_architecture() {
    return {"hunyuan-dense", {.rope = RopeKind::kHalves, .qk_norm = QkNorm::kPerHeadRotated}, read_hunyuan};
}

}  // namespace pith
