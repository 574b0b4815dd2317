// reference.h - the whole eviction once more, slow and obvious, written from the papers' formulas (docs/policies.md).
// A new part adds its formula here: the matrix fails, and names what is missing, until it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/evidence.h"
#include "policy/eviction.h"
#include "policy/variants.h"

namespace pith::test {

using Lanes = std::vector<std::vector<float>>;        // [K][entry]
using KeptLanes = std::vector<std::vector<int32_t>>;  // [n_lanes][kept index], layer-major

struct PolicyVariant {
    PartVariant scorer, refiner, allocator, selector;  // refiner: name empty where there is none
    std::string text() const;
};

struct Reference {
    bool too_small = false;                       // the budget cannot hold what is protected
    int64_t total = 0;                            // T
    std::vector<std::vector<bool>> is_protected;  // [n_lanes][entry]
    KeptLanes kept;
};

// Errors: throws std::runtime_error naming the part that has no formula here.
Reference reference_eviction(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers);

}  // namespace pith::test
