// require_rows.h - whether evidence holds what a part asked for. Stage: evidence.
// Pure C++: no ggml, no I/O.
#pragma once

#include <string_view>

#include "core/ragged.h"
#include "pith/status.h"
#include "policy/evidence/evidence.h"

namespace pith {

// Ok when `rows` has one row per lane (per_head: one per query head) of the lane's length.
// Errors: kMissingEvidence naming the part, the evidence and the layer.
Status require_rows(std::string_view part, std::string_view name, const Ragged<float> & rows, const LayerEvidence & evidence,
                    bool per_head);

// Ok when all these numbers are finite. REQUIRES: require_rows() passed.
// Errors: kNotFinite naming the part, the evidence, layer, KV head and entry.
Status require_finite(std::string_view part, std::string_view name, const Ragged<float> & rows, const LayerEvidence & evidence,
                      bool per_head);

}  // namespace pith
