// require_rows.cpp - rows against the lanes' lengths.
#include "policy/evidence/require_rows.h"

#include <string>

namespace pith {

Status require_rows(std::string_view part, std::string_view name, const Ragged<float> & rows, const LayerEvidence & evidence,
                    bool per_head) {
    const int per_lane = per_head ? evidence.n_group : 1;
    bool fits = rows.n_rows() == evidence.n_kv_heads * per_lane;
    for (int r = 0; fits && r < rows.n_rows(); ++r) { fits = rows.length(r) == evidence.length(r / per_lane); }
    if (fits) { return {}; }
    return {ErrorCode::kMissingEvidence, std::string(part) + " needs " + std::string(name) +
                                             " of every entry, and the evidence of layer " + std::to_string(evidence.layer) +
                                             " lacks it: capture what the policy's needs() ask for"};
}

}  // namespace pith
