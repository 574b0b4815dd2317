// caote_error.cpp - weights, odds and distances into eviction errors.
#include "policy/refine/caote_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace pith {

std::string check_caote_options(const Options & options) {
    if (!options.is("space", "output") || !options.is("squared", "true")) { return {}; }
    return "squared=true squares each head's own distance, and space=output has none: leave one of them out";
}

namespace {

// A row for every query head, from one per head or per KV head.
Ragged<float> rows_per_head(const LayerEvidence & evidence, const Ragged<float> & rows) {
    Ragged<float> out;
    const int n_heads = evidence.n_kv_heads * evidence.n_group;
    for (int head = 0; head < n_heads; ++head) {
        out.push_row(rows.row(rows.n_rows() == n_heads ? head : head / evidence.n_group));
    }
    return out;
}

constexpr double kMost = std::numeric_limits<float>::max();

// space=output. odds: a row per row of scores; infinite where an entry is all of its row, which is then kept last of all.
Status refine_in_output(const LayerEvidence & evidence, const Ragged<float> & weights,
                        const std::vector<std::vector<double>> & odds, Ragged<float> & scores) {
    Ragged<float> finite;
    for (const std::vector<double> & row : odds) {
        std::vector<float> values;
        for (const double x : row) { values.push_back(static_cast<float>(std::isfinite(x) ? std::min(x, kMost) : 0.0)); }
        finite.push_row(values);
    }
    PITH_RETURN_IF_ERROR(
        evidence.values->output_errors(rows_per_head(evidence, weights), rows_per_head(evidence, finite), scores));
    const size_t rows_per_lane = odds.size() / static_cast<size_t>(std::max(1, evidence.n_kv_heads));
    for (size_t r = 0; r < odds.size(); ++r) {
        const std::span<float> out = scores.row(static_cast<int>(r / rows_per_lane));
        for (size_t j = 0; j < out.size(); ++j) {
            if (!std::isfinite(odds[r][j])) { out[j] = static_cast<float>(kMost); }
        }
    }
    return {};
}

}  // namespace

Status CaoteErrorRefiner::refine(const LayerEvidence & evidence, const Ragged<float> * head_scores,
                                 std::span<const int64_t> /*net_budgets*/, Ragged<float> & scores) const {
    PITH_RETURN_IF_ERROR(require_values(name_, evidence));
    const bool per_head = exact_ && head_scores != nullptr;
    const int rows_per_lane = per_head ? evidence.n_group : 1;
    std::vector<std::vector<double>> odds;  // a/(1-a)
    Ragged<float> normalised = per_head ? *head_scores : scores;
    for (int r = 0; r < normalised.n_rows(); ++r) {
        const std::span<float> row = normalised.row(r);
        std::vector<double> weights = eviction_weights(row);
        const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (size_t j = 0; j < row.size(); ++j) { row[j] = static_cast<float>(weights[j] / sum); }
        const std::vector<double> others = sums_of_others(weights);
        for (size_t j = 0; j < row.size(); ++j) {
            weights[j] = others[j] > 0 ? weights[j] / others[j] : std::numeric_limits<double>::infinity();
        }
        odds.push_back(std::move(weights));
    }
    const Ragged<float> weights = mean_weights(evidence, std::move(normalised));
    if (in_output_) { return refine_in_output(evidence, weights, odds, scores); }
    Ragged<float> distances;
    PITH_RETURN_IF_ERROR(evidence.values->distances_to_mean(weights, distances));

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
