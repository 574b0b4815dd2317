// phi3.cpp - Phi 3 and 4: fused matrices, and longrope's factors. Stage: model.
#include "model/arch/architecture.h"
#include "pith/log.h"

namespace pith {
namespace {

// Some files name a window that the model was trained with; llama.cpp does not apply it either.
Status read_phi3(const KeyReader & keys, Hparams &) {
    int window = 0;
    PITH_RETURN_IF_ERROR(keys.integer("attention.sliding_window", 0, 1 << 30, window, false));
    if (window > 0) {
        log_line(LogLevel::kWarning, "phi3: the file's window of " + std::to_string(window) + " is not applied");
    }
    return {};
}

}  // namespace

Architecture phi3_architecture() {
    return {"phi3", {.rope = RopeKind::kHalves, .gate_in_up = true}, read_phi3};
}

}  // namespace pith
