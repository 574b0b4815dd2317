// fidelity.cpp - distances, correlations, overlaps.
#include "inspect/fidelity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/lane/top.h"

namespace pith {
namespace {

// Ranks from 1, ties averaged.
std::vector<double> ranks(std::span<const float> values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [values](size_t i) { return values[i]; });
    std::vector<double> out(values.size());
    for (size_t begin = 0; begin < order.size();) {
        size_t end = begin + 1;
        while (end < order.size() && values[order[end]] == values[order[begin]]) { ++end; }
        const double rank = static_cast<double>(begin + 1 + end) / 2;  // the mean of begin + 1 … end
        for (size_t i = begin; i < end; ++i) { out[order[i]] = rank; }
        begin = end;
    }
    return out;
}

}  // namespace

double l1_norm(std::span<const float> a) {
    return std::accumulate(a.begin(), a.end(), 0.0, [](double sum, float x) { return sum + std::abs(static_cast<double>(x)); });
}

double l1_distance(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) { sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])); }
    return sum;
}

double cosine_similarity(std::span<const float> a, std::span<const float> b) {
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double x = a[i];
        const double y = b[i];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    if (aa == 0 || bb == 0) { return aa == bb ? 1 : 0; }
    return std::clamp(ab / std::sqrt(aa * bb), -1.0, 1.0);
}

double relative_error(std::span<const float> a, std::span<const float> b) {
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double x = a[i];
        const double y = b[i];
        difference += (x - y) * (x - y);
        size += x * x;
    }
    return difference == 0 ? 0 : std::sqrt(difference / size);
}

double spearman(std::span<const float> a, std::span<const float> b) {
    const std::vector<double> of_a = ranks(a);
    const std::vector<double> of_b = ranks(b);
    const double mean = (static_cast<double>(a.size()) + 1) / 2;
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < of_a.size(); ++i) {
        ab += (of_a[i] - mean) * (of_b[i] - mean);
        aa += (of_a[i] - mean) * (of_a[i] - mean);
        bb += (of_b[i] - mean) * (of_b[i] - mean);
    }
    if (aa == 0 || bb == 0) { return aa == bb ? 1 : 0; }
    return ab / std::sqrt(aa * bb);
}

void count_overlap(std::span<const int32_t> a, std::span<const int32_t> b, SetCounts & counts) {
    int64_t n_both = 0;
    for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        n_both += a[i] == b[j] ? 1 : 0;
        const bool next_a = a[i] <= b[j];
        const bool next_b = b[j] <= a[i];
        i += next_a ? 1 : 0;
        j += next_b ? 1 : 0;
    }
    counts.n_both += n_both;
    counts.n_either += std::ssize(a) + std::ssize(b) - n_both;
}

double kept_mass(std::span<const float> attention, std::span<const int32_t> positions, std::span<const int32_t> kept) {
    double mass = 0;
    size_t j = 0;
    for (const int32_t position : kept) {
        while (j < positions.size() && positions[j] < position) { ++j; }
        if (j < positions.size() && positions[j] == position) { mass += attention[j]; }
    }
    return mass;
}

std::vector<int32_t> first_stage(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n_candidates,
                                 double alpha) {
    std::vector<int32_t> chosen;
    TopSelector().with_protected(scores, protected_ranges, static_cast<int>(std::floor(alpha * n_candidates)), chosen);
    return chosen;
}

}  // namespace pith
