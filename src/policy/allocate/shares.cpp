// shares.cpp - weights → entries per lane, exact in sum.
#include "policy/allocate/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith {
namespace {

constexpr int64_t kOne = int64_t{1} << kShareBits;

// Divides `total` over `lanes` by clamp(λ·weight, 0, length) and returns what no lane had room for.
// With lanes sorted by length/weight, the full ones come first: λ is found at the first lane that is not full.
double fill(std::vector<size_t> lanes, std::span<const double> weights, std::span<const int> lengths, double total,
            std::vector<double> & shares) {
    std::stable_sort(lanes.begin(), lanes.end(), [&](size_t a, size_t b) {
        return lengths[a] * weights[b] < lengths[b] * weights[a];  // length/weight, without the division
    });
    std::vector<double> weight_left(lanes.size() + 1, 0.0);  // summed from the back: no cancellation
    for (size_t i = lanes.size(); i-- > 0;) { weight_left[i] = weight_left[i + 1] + weights[lanes[i]]; }
    size_t i = 0;
    for (; i < lanes.size(); ++i) {
        if (total * weights[lanes[i]] < lengths[lanes[i]] * weight_left[i]) { break; }
        shares[lanes[i]] = lengths[lanes[i]];
        total -= lengths[lanes[i]];
    }
    if (i == lanes.size()) { return total; }
    const double lambda = total / weight_left[i];
    for (; i < lanes.size(); ++i) { shares[lanes[i]] = lambda * weights[lanes[i]]; }
    return 0;
}

}  // namespace

std::vector<double> divide_real(std::span<const double> weights, std::span<const int> net_lengths, int64_t total) {
    std::vector<size_t> weighted;
    std::vector<size_t> others;
    for (size_t i = 0; i < weights.size(); ++i) { (weights[i] > 0 ? weighted : others).push_back(i); }
    std::vector<double> shares(weights.size(), 0.0);
    const double rest = fill(std::move(weighted), weights, net_lengths, static_cast<double>(total), shares);
    if (rest > 0 && !others.empty()) {
        const std::vector<double> even(weights.size(), 1.0);
        fill(std::move(others), even, net_lengths, rest, shares);
    }
    return shares;
}

std::vector<int64_t> divide(std::span<const double> weights, std::span<const int> net_lengths, int64_t total) {
    const std::vector<double> shares = divide_real(weights, net_lengths, total);
    std::vector<int64_t> fixed(shares.size());
    std::transform(shares.begin(), shares.end(), fixed.begin(), [](double share) { return std::llround(share * kOne); });
    return fixed;
}

int64_t ceil_share(double share) {
    return (std::llround(share * kOne) + kOne - 1) / kOne;
}

std::vector<int> round_shares(std::span<const int64_t> shares, std::span<const int> net_lengths, int64_t total) {
    std::vector<int> rounded(shares.size());
    for (size_t i = 0; i < shares.size(); ++i) { rounded[i] = std::min(static_cast<int>(shares[i] / kOne), net_lengths[i]); }
    int64_t left = total - std::accumulate(rounded.begin(), rounded.end(), int64_t{0});

    std::vector<size_t> order(shares.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return shares[a] % kOne > shares[b] % kOne; });
    for (size_t n_full = 0; left > 0 && n_full < order.size();) {  // one round, unless lanes with a remainder are full
        n_full = 0;
        for (const size_t i : order) {
            if (left == 0) { break; }
            if (rounded[i] == net_lengths[i]) {
                ++n_full;
                continue;
            }
            ++rounded[i];
            --left;
        }
    }
    return rounded;
}

std::vector<int> ceil_shares(std::span<const int64_t> shares, std::span<const int> net_lengths) {
    std::vector<int> rounded(shares.size());
    for (size_t i = 0; i < shares.size(); ++i) {
        rounded[i] = std::min(static_cast<int>((shares[i] + kOne - 1) / kOne), net_lengths[i]);
    }
    return rounded;
}

}  // namespace pith
