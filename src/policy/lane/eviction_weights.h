// eviction_weights.h - a lane's scores as the weights that evicting by output error wants. Stage: refine, select.
// Pure C++: no ggml, no I/O.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "policy/evidence/evidence.h"

namespace pith {

// Scores as weights ≥ 0, not yet normalised: scores that are negative somewhere are shifted by their minimum first (decision);
// where all are 0, every weight is 1.
std::vector<double> eviction_weights(std::span<const float> scores);

// For each weight the sum of all others, added up from both ends, so that nothing cancels where one weight is nearly all.
std::vector<double> sums_of_others(std::span<const double> weights);

// Errors: kMissingEvidence naming the part, where the evidence has no values.
Status require_values(std::string_view part, const LayerEvidence & evidence);

}  // namespace pith
