// significance.cpp - exact and permutation tests on pairs. Stage: statistics.
#include "statistics/significance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

namespace pith {
namespace {

constexpr size_t kMostExact = 16;  // differences: 2^16 sign patterns
constexpr int kDraws = 20000;
constexpr double kSlack = 1e-12;  // rounding of sums that are equal on paper

}  // namespace

double mcnemar_p(int n_first, int n_second) {
    const int n = n_first + n_second;
    if (n == 0) { return 1; }
    double tail = 0;
    for (int k = 0; k <= std::min(n_first, n_second); ++k) {
        tail += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
    }
    return std::min(1.0, 2 * tail);
}

double permutation_p(const std::vector<std::vector<double>> & strata) {
    std::vector<double> weighted;  // what each pair adds to the statistic
    for (const std::vector<double> & stratum : strata) {
        for (const double difference : stratum) {
            if (difference != 0) { weighted.push_back(difference / static_cast<double>(stratum.size())); }
        }
    }
    if (weighted.empty()) { return 1; }
    const double seen = std::abs(std::accumulate(weighted.begin(), weighted.end(), 0.0)) * (1 - kSlack);
    const auto flipped = [&weighted](const auto & is_minus) {
        double sum = 0;
        for (size_t i = 0; i < weighted.size(); ++i) { sum += is_minus(i) ? -weighted[i] : weighted[i]; }
        return std::abs(sum);
    };
    if (weighted.size() <= kMostExact) {
        const uint32_t n_patterns = uint32_t{1} << weighted.size();
        uint32_t hits = 0;
        for (uint32_t pattern = 0; pattern < n_patterns; ++pattern) {
            hits += flipped([pattern](size_t i) { return ((pattern >> i) & 1U) != 0; }) >= seen ? 1 : 0;
        }
        return static_cast<double>(hits) / n_patterns;
    }
    std::mt19937_64 random(1);
    int hits = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
        uint64_t bits = 0;
        hits += flipped([&](size_t i) {
                    if (i % 64 == 0) { bits = random(); }
                    return ((bits >> (i % 64)) & 1U) != 0;
                }) >= seen
                    ? 1
                    : 0;
    }
    return static_cast<double>(hits + 1) / (kDraws + 1);
}

PairedTest paired_test(const std::vector<double> & differences) {
    const bool binary =
        std::all_of(differences.begin(), differences.end(), [](double d) { return d == -1 || d == 0 || d == 1; });
    if (!binary) { return {permutation_p({differences}), "permutation"}; }
    const auto n_first = static_cast<int>(std::count(differences.begin(), differences.end(), -1.0));
    const auto n_second = static_cast<int>(std::count(differences.begin(), differences.end(), 1.0));
    return {mcnemar_p(n_first, n_second), "McNemar"};
}

std::vector<double> holm(std::span<const double> p) {
    std::vector<size_t> order(p.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [p](size_t a, size_t b) { return p[a] < p[b]; });
    std::vector<double> adjusted(p.size());
    double largest = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        largest = std::max(largest, std::min(1.0, p[order[i]] * static_cast<double>(order.size() - i)));
        adjusted[order[i]] = largest;
    }
    return adjusted;
}

}  // namespace pith
