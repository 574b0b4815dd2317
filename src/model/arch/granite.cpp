// granite.cpp - Granite 3 and 4, dense: Llama with four multipliers. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture granite_architecture() {
    return {"granite", {.experts = Experts::kLikeMixtral}, read_granite};
}

}  // namespace pith
