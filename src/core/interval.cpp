// interval.cpp - Wilson's score interval, its likes, and the percentile bootstrap. Stage: core.
#include "core/interval.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace pith {
namespace {

constexpr double kZ = 1.959963984540054;  // 97.5 % of the standard normal distribution lies below
constexpr int kResamples = 2000;
constexpr double kTail = 0.025;

}  // namespace

Interval wilson_interval(double n_right, double n) {
    if (n <= 0) { return {0, 1}; }
    const double share = n_right / n;
    const double z2 = kZ * kZ / n;
    const double middle = (share + z2 / 2) / (1 + z2);
    const double half = kZ / (1 + z2) * std::sqrt(share * (1 - share) / n + z2 / (4 * n));
    return {std::clamp(middle - half, 0.0, share), std::clamp(middle + half, share, 1.0)};  // not past the ends by rounding
}

Interval score_interval(std::span<const double> scores) {
    if (scores.empty()) { return {0, 1}; }
    const auto n = static_cast<double>(scores.size());
    double sum = 0;
    double squares = 0;
    for (const double score : scores) {
        sum += score;
        squares += score * score;
    }
    // A 0 and a 1 more.
    const double mean = (sum + 1) / (n + 2);
    const double variance = (squares + 1) / (n + 2) - mean * mean;
    const double ratio = std::min(variance / (mean * (1 - mean)), 1.0);
    return wilson_interval(std::clamp(sum / ratio, 0.0, n / ratio), n / ratio);
}

Estimate mean_of(std::span<const Estimate> parts) {
    const auto n = static_cast<double>(parts.size());
    Estimate out;
    double below = 0;
    double above = 0;
    for (const Estimate & part : parts) {
        out.mean += part.mean / n;
        below += (part.mean - part.interval.low) * (part.mean - part.interval.low);
        above += (part.interval.high - part.mean) * (part.interval.high - part.mean);
    }
    out.interval = {out.mean - std::sqrt(below) / n, out.mean + std::sqrt(above) / n};
    return out;
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
    const auto at = [&means](double share) { return means[static_cast<size_t>(std::lround(share * (kResamples - 1)))]; };
    return {at(kTail), at(1 - kTail)};
}

}  // namespace pith
