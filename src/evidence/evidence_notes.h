// evidence_notes.h - what evidence leaves out on a model, for people. Stage: evidence.
#pragma once

#include <string>
#include <vector>

#include "model/model_file.h"
#include "policy/evidence/evidence.h"

namespace pith {

// Who asks: a policy.
struct EvidenceUse {
    EvidenceNeeds needs;
    bool ranks_across_layers = false;  // Allocator's
};

// One line for each thing that this model does and that what is asked for does not follow exactly; none where all of it is
// exact (docs/models.md). Sinks, layers without rotation and the attention's own scale are.
std::vector<std::string> evidence_notes(const Hparams & hparams, const EvidenceUse & use);
// The same for any policy there is.
std::vector<std::string> evidence_notes(const Hparams & hparams);

}  // namespace pith
