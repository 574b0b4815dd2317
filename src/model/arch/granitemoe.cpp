// granitemoe.cpp - Granite with experts, and maybe one that every token goes through. Stage: model.
#include "model/arch/arch_keys.h"
#include "model/arch/architecture.h"

namespace pith {

Architecture granitemoe_architecture() {
    return {"granitemoe", {.experts = Experts::kLikeMixtral}, read_granite};
}

}  // namespace pith
