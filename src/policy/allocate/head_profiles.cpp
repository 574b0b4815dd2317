// head_profiles.cpp - distances between the heads of neighbouring layers.
#include "policy/allocate/head_profiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "policy/score/scorer.h"

namespace pith {
namespace {

constexpr double kLeast = 1e-6;

double clamped(double distance) {
    return distance < kLeast ? kLeast : distance;  // a NaN passes, and is reported
}

// One more than the newest position of the layer.
size_t count_positions(const LayerEvidence & evidence) {
    int32_t end = 0;
    for (int h = 0; h < evidence.n_kv_heads; ++h) {
        const auto lane = evidence.positions.row(h);
        if (!lane.empty()) { end = std::max(end, lane.back() + 1); }
    }
    return static_cast<size_t>(end);
}

double inner(std::span<const double> a, std::span<const double> b) {
    const size_t n = std::min(a.size(), b.size());
    return std::inner_product(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin(), 0.0);
}

Status check(const LayerEvidence & evidence, bool wants_rows) {
    if (!wants_rows) { return require_rows("the distance of heads", "profile", evidence.profile, evidence, true); }
    const int n_sampled = evidence.n_sampled;
    bool fits = evidence.sampled_rows.n_rows() == evidence.n_kv_heads * evidence.n_group * n_sampled;
    for (int r = 0; fits && r < evidence.sampled_rows.n_rows(); ++r) {
        fits = evidence.sampled_rows.length(r) == evidence.length(r / n_sampled / evidence.n_group);
    }
    if (fits) { return {}; }
    return {ErrorCode::kMissingEvidence, "the distance of heads needs the attention of " + std::to_string(n_sampled) +
                                             " sampled queries per head, and the evidence of layer " +
                                             std::to_string(evidence.layer) +
                                             " lacks it: capture what the policy's needs() ask for"};
}

}  // namespace

Status HeadProfiles::add(const LayerEvidence & evidence, LayerProfile & profile, const RunTasks & run) {
    const bool wants_rows = distance_ == HeadDistance::kJensenShannon || distance_ == HeadDistance::kEuclidean;
    PITH_RETURN_IF_ERROR(check(evidence, wants_rows));
    std::vector<double> heads(static_cast<size_t>(evidence.n_kv_heads * evidence.n_group), 0.0);
    if (wants_rows) {
        PITH_RETURN_IF_ERROR(compare_rows(evidence, run, profile, heads));
    } else {
        compare_means(evidence, profile, heads);
    }
    has_previous_ = true;
    for (size_t g = 0; g < heads.size(); ++g) {
        if (std::isfinite(heads[g])) { continue; }
        return {ErrorCode::kNotFinite, "the attention profile of layer " + std::to_string(evidence.layer) + ", query head " +
                                           std::to_string(g) + " is " + std::to_string(heads[g]) +
                                           " away from the others: the model's weights or its evidence are broken"};
    }
    profile.within = clamped(profile.within);
    profile.to_previous = clamped(profile.to_previous);
    profile.head_distance.assign(static_cast<size_t>(evidence.n_kv_heads), 0.0);
    const auto n_group = static_cast<size_t>(evidence.n_group);
    for (size_t g = 0; g < heads.size(); ++g) {
        profile.head_distance[g / n_group] += clamped(heads[g]) / static_cast<double>(n_group);
    }
    return {};
}

void HeadProfiles::compare_means(const LayerEvidence & evidence, LayerProfile & profile, std::vector<double> & heads) {
    std::vector<double> mean(count_positions(evidence), 0.0);
    for (int g = 0; g < evidence.profile.n_rows(); ++g) {
        const auto row = evidence.profile.row(g);
        const auto positions = evidence.positions.row(g / evidence.n_group);
        for (size_t j = 0; j < row.size(); ++j) { mean[static_cast<size_t>(positions[j])] += row[j]; }
    }
    for (double & x : mean) { x /= static_cast<double>(heads.size()); }

    profile.within = 1 - inner(mean, mean);
    profile.to_previous = has_previous_ ? 1 - inner(mean, previous_mean_) : profile.within;
    std::vector<double> both = mean;  // mean over the heads of the one or two layers
    if (has_previous_) {
        for (size_t p = 0; p < both.size(); ++p) {
            both[p] = (mean[p] + (p < previous_mean_.size() ? previous_mean_[p] : 0)) / 2;
        }
    }
    for (int g = 0; g < evidence.profile.n_rows(); ++g) {
        const auto row = evidence.profile.row(g);
        const auto positions = evidence.positions.row(g / evidence.n_group);
        double sum = 0;
        for (size_t j = 0; j < row.size(); ++j) { sum += row[j] * both[static_cast<size_t>(positions[j])]; }
        heads[static_cast<size_t>(g)] = 1 - sum;
    }
    previous_mean_ = std::move(mean);
}

Status HeadProfiles::compare_rows(const LayerEvidence & evidence, const RunTasks & run, LayerProfile & profile,
                                  std::vector<double> & heads) {
    SampledRows rows(evidence, distance_);
    std::vector<double> own;     // [H][H]
    std::vector<double> before;  // [H][H of the layer before]
    PITH_RETURN_IF_ERROR(mean_row_distances(rows, rows, distance_, run, own));
    if (has_previous_) { PITH_RETURN_IF_ERROR(mean_row_distances(rows, previous_rows_, distance_, run, before)); }
    const size_t n = heads.size();
    const auto mean_of_row = [n](const std::vector<double> & means, size_t g) {
        const auto row = std::span(means).subspan(g * n, n);
        return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(n);
    };
    double within = 0;
    double to_previous = 0;
    for (size_t g = 0; g < n; ++g) {
        const double to_own = mean_of_row(own, g);
        const double to_before = has_previous_ ? mean_of_row(before, g) : to_own;
        heads[g] = (to_own + to_before) / 2;
        within += to_own / static_cast<double>(n);
        to_previous += to_before / static_cast<double>(n);
    }
    profile.within = within;
    profile.to_previous = to_previous;
    previous_rows_ = std::move(rows);
    return {};
}

}  // namespace pith
