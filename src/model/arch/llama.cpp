// llama.cpp - Llama 1 to 3, Mistral, Mixtral, and the many models of their form. Stage: model.
#include "model/arch/architecture.h"

namespace pith {

Architecture llama_architecture() {
    return {"llama", {.experts = Experts::kLikeMixtral}};
}

}  // namespace pith
