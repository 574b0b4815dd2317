// smollm3.cpp - SmolLM 3: Llama whose every fourth layer does not rotate. No key says so; all files of the name do. Stage:
// model.
#include "model/arch/architecture.h"

namespace pith {

Architecture smollm3_architecture() {
    return {"smollm3", {}, [](const KeyReader &, Hparams & hp) {
                constexpr size_t kStep = 4;
                for (size_t l = kStep - 1; l < hp.layers.size(); l += kStep) { hp.layers[l].rotates = false; }
                return Status();
            }};
}

}  // namespace pith
