// eviction_weights.cpp - see the header.
#include "policy/lane/eviction_weights.h"

#include <algorithm>
#include <string>

namespace pith {

std::vector<double> eviction_weights(std::span<const float> scores) {
    std::vector<double> weights(scores.begin(), scores.end());
    if (weights.empty()) { return weights; }
    const double least = *std::min_element(weights.begin(), weights.end());
    if (least < 0) {
        for (double & weight : weights) { weight -= least; }
    }
    if (*std::max_element(weights.begin(), weights.end()) <= 0) { std::fill(weights.begin(), weights.end(), 1.0); }
    return weights;
}

std::vector<double> sums_of_others(std::span<const double> weights) {
    std::vector<double> others(weights.size(), 0.0);
    double before = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
        others[j] = before;
        before += weights[j];
    }
    double behind = 0;
    for (size_t j = weights.size(); j-- > 0;) {
        others[j] += behind;
        behind += weights[j];
    }
    return others;
}

Status require_values(std::string_view part, const LayerEvidence & evidence) {
    if (evidence.values != nullptr) { return {}; }
    return {ErrorCode::kMissingEvidence, std::string(part) + " needs the values of every entry, and the evidence of layer " +
                                             std::to_string(evidence.layer) +
                                             " lacks them: capture what the policy's needs() ask for"};
}

}  // namespace pith
