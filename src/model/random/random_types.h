// random_types.h - which type each matrix of a random model has: one for all, or a mixture as files of the hub have it. Stage:
// model.
#pragma once

#include <ggml.h>

#include <string>
#include <vector>

#include "model/random/random_model.h"
#include "model/weight_table.h"
#include "pith/status.h"

namespace pith {

class RandomTypes {
public:
    // Errors: kInvalidArgument, naming the types and mixtures there are.
    static Result<RandomTypes> of(const RandomModelSpec & spec);

    // A matrix's, before its width is looked at.
    ggml_type type_of(const WantedWeight & weight) const;

private:
    enum class Mixture { kNone, kQ4_K_M, kMXFP4_MoE };

    Mixture mixture_ = Mixture::kNone;
    ggml_type type_ = GGML_TYPE_F32;  // of all, or of most
    int n_layers_ = 0;
    bool tied_ = false;
};

}  // namespace pith
