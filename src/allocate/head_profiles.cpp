// head_profiles.cpp - distances between the heads of neighbouring layers.
#include "allocate/head_profiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "score/scorer.h"

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
        if (!lane.empty()) end = std::max(end, lane.back() + 1);
    }
    return static_cast<size_t>(end);
}

double inner(std::span<const double> a, std::span<const double> b) {
    const size_t n = std::min(a.size(), b.size());
    return std::inner_product(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin(), 0.0);
}

// Two distributions over positions; the shorter one is 0 behind its end.
double euclidean(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const double d = (i < a.size() ? double{a[i]} : 0.0) - (i < b.size() ? double{b[i]} : 0.0);
        sum += d * d;
    }
    return std::sqrt(sum);
}

double jensen_shannon(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const double p = i < a.size() ? a[i] : 0;
        const double q = i < b.size() ? b[i] : 0;
        if (p > 0) sum += p * std::log2(2 * p / (p + q));
        if (q > 0) sum += q * std::log2(2 * q / (p + q));
    }
    return std::sqrt(sum < 0 ? 0 : sum / 2);
}

Status check(const LayerEvidence & evidence, bool wants_rows) {
    if (!wants_rows) return require_rows("the distance of heads", "profile", evidence.profile, evidence, true);
    const int n_sampled = evidence.n_sampled;
    bool fits = evidence.sampled_rows.n_rows() == evidence.n_kv_heads * evidence.n_group * n_sampled;
    for (int r = 0; fits && r < evidence.sampled_rows.n_rows(); ++r) {
        fits = evidence.sampled_rows.length(r) == evidence.length(r / n_sampled / evidence.n_group);
    }
    if (fits) return {};
    return {ErrorCode::kMissingEvidence, "the distance of heads needs the attention of " + std::to_string(n_sampled) +
                                             " sampled queries per head, and the evidence of layer " +
                                             std::to_string(evidence.layer) +
                                             " lacks it: capture what the policy's needs() ask for"};
}

}  // namespace

Status HeadProfiles::add(const LayerEvidence & evidence, LayerProfile & profile) {
    const bool wants_rows = distance_ == HeadDistance::kJensenShannon || distance_ == HeadDistance::kEuclidean;
    PITH_RETURN_IF_ERROR(check(evidence, wants_rows));
    std::vector<double> heads(static_cast<size_t>(evidence.n_kv_heads * evidence.n_group), 0.0);
    if (wants_rows) {
        compare_rows(evidence, profile, heads);
    } else {
        compare_means(evidence, profile, heads);
    }
    has_previous_ = true;
    for (size_t g = 0; g < heads.size(); ++g) {
        if (std::isfinite(heads[g])) continue;
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
        for (size_t j = 0; j < row.size(); ++j) mean[static_cast<size_t>(positions[j])] += row[j];
    }
    for (double & x : mean) x /= static_cast<double>(heads.size());

    profile.within = 1 - inner(mean, mean);
    profile.to_previous = has_previous_ ? 1 - inner(mean, previous_mean_) : profile.within;
    std::vector<double> both = mean;  // mean over the heads of the one or two layers
    if (has_previous_) {
        for (size_t p = 0; p < both.size(); ++p) both[p] = (mean[p] + (p < previous_mean_.size() ? previous_mean_[p] : 0)) / 2;
    }
    for (int g = 0; g < evidence.profile.n_rows(); ++g) {
        const auto row = evidence.profile.row(g);
        const auto positions = evidence.positions.row(g / evidence.n_group);
        double sum = 0;
        for (size_t j = 0; j < row.size(); ++j) sum += row[j] * both[static_cast<size_t>(positions[j])];
        heads[static_cast<size_t>(g)] = 1 - sum;
    }
    previous_mean_ = std::move(mean);
}

double HeadProfiles::mean_distance(const Rows & a, size_t head_a, const Rows & b, size_t head_b) const {
    if (a.n_sampled == 0 || b.n_sampled == 0) return 1;
    const auto row = [](const Rows & rows, size_t head, size_t query) {
        return std::span(rows.values).subspan((head * rows.n_sampled + query) * rows.n_positions, rows.n_positions);
    };
    double sum = 0;
    for (size_t s = 0; s < a.n_sampled; ++s) {
        for (size_t t = 0; t < b.n_sampled; ++t) {
            const auto x = row(a, head_a, s);
            const auto y = row(b, head_b, t);
            sum += distance_ == HeadDistance::kEuclidean ? euclidean(x, y) : jensen_shannon(x, y);
        }
    }
    return sum / static_cast<double>(a.n_sampled * b.n_sampled);
}

void HeadProfiles::compare_rows(const LayerEvidence & evidence, LayerProfile & profile, std::vector<double> & heads) {
    Rows rows{count_positions(evidence), static_cast<size_t>(evidence.n_sampled), {}};
    rows.values.assign(heads.size() * rows.n_sampled * rows.n_positions, 0.0F);
    for (int r = 0; r < evidence.sampled_rows.n_rows(); ++r) {
        const auto row = evidence.sampled_rows.row(r);
        const auto positions = evidence.positions.row(r / evidence.n_sampled / evidence.n_group);
        float * out = rows.values.data() + static_cast<size_t>(r) * rows.n_positions;
        for (size_t j = 0; j < row.size(); ++j) out[positions[j]] = row[j];
    }
    double within = 0;
    double to_previous = 0;
    const auto n_heads = static_cast<double>(heads.size());
    for (size_t g = 0; g < heads.size(); ++g) {
        double own = 0;
        double before = 0;
        for (size_t other = 0; other < heads.size(); ++other) {
            own += mean_distance(rows, g, rows, other) / n_heads;
            if (has_previous_) before += mean_distance(rows, g, previous_rows_, other) / n_heads;
        }
        heads[g] = has_previous_ ? (own + before) / 2 : own;
        within += own / n_heads;
        to_previous += before / n_heads;
    }
    profile.within = within;
    profile.to_previous = has_previous_ ? to_previous : within;
    previous_rows_ = std::move(rows);
}

}  // namespace pith
