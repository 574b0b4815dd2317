// eviction_error.cpp - weights, odds and distances into eviction errors.
#include "refine/eviction_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace pith {

std::vector<double> eviction_weights(std::span<const float> scores) {
    std::vector<double> weights(scores.begin(), scores.end());
    if (weights.empty()) return weights;
    const double least = *std::min_element(weights.begin(), weights.end());
    if (least < 0) {
        for (double & weight : weights) weight -= least;
    }
    if (*std::max_element(weights.begin(), weights.end()) <= 0) std::fill(weights.begin(), weights.end(), 1.0);
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
    if (evidence.values != nullptr) return {};
    return {ErrorCode::kMissingEvidence, std::string(part) + " needs the values of every entry, and the evidence of layer " +
                                             std::to_string(evidence.layer) +
                                             " lacks them: capture what the policy's needs() ask for"};
}

Status EvictionErrorRefiner::refine(const LayerEvidence & evidence, const Ragged<float> * head_scores,
                                    Ragged<float> & scores) const {
    PITH_RETURN_IF_ERROR(require_values(name_, evidence));
    const bool per_head = exact_ && head_scores != nullptr;
    const int rows_per_lane = per_head ? evidence.n_group : 1;
    std::vector<std::vector<double>> odds;  // a/(1-a)
    Ragged<float> normalised = per_head ? *head_scores : scores;
    for (int r = 0; r < normalised.n_rows(); ++r) {
        const std::span<float> row = normalised.row(r);
        std::vector<double> weights = eviction_weights(row);
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t j = 0; j < row.size(); ++j) row[j] = static_cast<float>(weights[j] / sum);
        const std::vector<double> others = sums_of_others(weights);
        for (size_t j = 0; j < row.size(); ++j) {
            weights[j] = others[j] > 0 ? weights[j] / others[j] : std::numeric_limits<double>::infinity();
        }
        odds.push_back(std::move(weights));
    }
    Ragged<float> distances;
    PITH_RETURN_IF_ERROR(evidence.values->distances_to_mean(mean_weights(evidence, std::move(normalised)), distances));

    constexpr double kMost = std::numeric_limits<float>::max();
    const int distance_rows_per_lane = distances.n_rows() / std::max(1, evidence.n_kv_heads);
    for (int h = 0; h < evidence.n_kv_heads; ++h) {
        const std::span<float> out = scores.row(h);
        for (size_t j = 0; j < out.size(); ++j) {
            double sum = 0;
            for (int g = 0; g < rows_per_lane; ++g) {
                const double distance = distances.row(h * distance_rows_per_lane + g % distance_rows_per_lane)[j];
                const int row = h * rows_per_lane + g;
                const double a_odds = odds[static_cast<size_t>(row)][j];
                if (!std::isfinite(a_odds)) {
                    sum = kMost * kMost;  // kept last of all, also where the distance is 0
                    break;
                }
                const double error = a_odds * (squared_ ? distance * distance : distance);
                sum += error * error;
            }
            out[j] = static_cast<float>(std::min(std::sqrt(sum), kMost));
        }
    }
    return {};
}

}  // namespace pith
