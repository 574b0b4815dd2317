// interval.cpp - Wilson's score interval and the percentile bootstrap. Stage: eval.
#include "eval/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pith {
namespace {

constexpr double kZ = 1.959963984540054;  // 97.5 % of the standard normal distribution lies below
constexpr int kResamples = 2000;
constexpr double kTail = 0.025;

}  // namespace

Interval wilson_interval(double n_right, int64_t n) {
    if (n <= 0) { return {0, 1}; }
    const auto count = static_cast<double>(n);
    const double share = n_right / count;
    const double z2 = kZ * kZ / count;
    const double middle = (share + z2 / 2) / (1 + z2);
    const double half = kZ / (1 + z2) * std::sqrt(share * (1 - share) / count + z2 / (4 * count));
    return {std::clamp(middle - half, 0.0, share), std::clamp(middle + half, share, 1.0)};  // not past the ends by rounding
}

Interval bootstrap_interval(std::span<const double> values, uint64_t seed) {
    if (values.empty()) { return {}; }
    std::mt19937_64 random(seed);
    std::vector<double> means(kResamples);
    for (double & mean : means) {
        double sum = 0;
        for (size_t i = 0; i < values.size(); ++i) { sum += values[random() % values.size()]; }
        mean = sum / static_cast<double>(values.size());
    }
    std::sort(means.begin(), means.end());
    const auto at = [&means](double share) { return means[static_cast<size_t>(share * (kResamples - 1) + 0.5)]; };
    return {at(kTail), at(1 - kTail)};
}

Interval score_interval(std::span<const double> scores) {
    const bool binary = std::all_of(scores.begin(), scores.end(), [](double score) { return score == 0 || score == 1; });
    if (!binary) { return bootstrap_interval(scores); }
    return wilson_interval(std::accumulate(scores.begin(), scores.end(), 0.0), static_cast<int64_t>(scores.size()));
}

}  // namespace pith
