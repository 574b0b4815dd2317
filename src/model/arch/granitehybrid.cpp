// granitehybrid.cpp - Granite 4 H: Granite most of whose layers are Mamba 2, dense or with experts. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {
namespace {

Status read_granitehybrid(const KeyReader & keys, Hparams & hp) {
    PITH_RETURN_IF_ERROR(read_granite(keys, hp));
    return read_mamba2(keys, hp);
}

}  // namespace

Architecture granitehybrid_architecture() {
    return {"granitehybrid", {.recurrent = Recurrent::kMamba2, .experts = Experts::kLikeMixtral}, read_granitehybrid};
}

}  // namespace pith
