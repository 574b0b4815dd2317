// require_rows.cpp - rows against the lanes' lengths.
#include "policy/evidence/require_rows.h"

#include <algorithm>
#include <cmath>
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

Status require_finite(std::string_view part, std::string_view name, const Ragged<float> & rows, const LayerEvidence & evidence,
                      bool per_head) {
    for (int r = 0; r < rows.n_rows(); ++r) {
        const auto row = rows.row(r);
        const auto broken = std::ranges::find_if(row, [](float x) { return !std::isfinite(x); });
        if (broken == row.end()) { continue; }
        const int kv_head = per_head ? r / evidence.n_group : r;
        const auto entry = static_cast<size_t>(broken - row.begin());
        return {ErrorCode::kNotFinite, std::string(part) + ": " + std::string(name) + " of layer " +
                                           std::to_string(evidence.layer) + ", head " + std::to_string(kv_head) + ", entry " +
                                           std::to_string(entry) + " (position " +
                                           std::to_string(evidence.positions.row(kv_head)[entry]) + ") is " +
                                           std::to_string(*broken) + ": the model's weights or its evidence are broken"};
    }
    return {};
}

}  // namespace pith
