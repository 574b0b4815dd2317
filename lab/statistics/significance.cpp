// significance.cpp - the sign-flip test and its inversion. Stage: statistics.
#include "statistics/significance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>

namespace pith {
namespace {

constexpr size_t kMostExact = 16;      // pairs: 2^16 sign patterns
constexpr int kDraws = 20000;          // each with its opposite
constexpr int64_t kTailsInWhole = 40;  // 2 tails of 1/40 each are 5 %
constexpr double kSlack = 1e-12;       // rounding of sums that are equal on paper

// The pairs with their weights, and the means of the subsets that sign patterns flip.
class Subsets {
public:
    explicit Subsets(const std::vector<std::vector<double>> & strata) {
        const auto n_strata = std::count_if(strata.begin(), strata.end(), [](const auto & s) { return !s.empty(); });
        for (const std::vector<double> & stratum : strata) {
            for (const double difference : stratum) {
                const double weight = 1.0 / (static_cast<double>(n_strata) * static_cast<double>(stratum.size()));
                pairs_.push_back({weight, weight * difference});
                whole_.weight += pairs_.back().weight;
                whole_.sum += pairs_.back().sum;
                size_ += std::abs(pairs_.back().sum);
            }
        }
    }

    double mean() const { return whole_.sum; }
    bool is_small() const { return pairs_.size() <= kMostExact; }
    // Of the empty set and of all pairs there is one each; of every other subset its complement is there, too.
    std::vector<double> means() const {
        std::vector<double> means;
        if (is_small()) {
            const uint32_t n_patterns = uint32_t{1} << pairs_.size();
            for (uint32_t pattern = 1; pattern < n_patterns; ++pattern) { means.push_back(mean_of(subset(pattern, 0))); }
            return means;
        }
        means.push_back(mean_of(whole_));
        std::mt19937_64 random(1);
        for (int draw = 0; draw < kDraws; ++draw) {
            Pair drawn;
            for (size_t begin = 0; begin < pairs_.size(); begin += kWord) {
                const Pair part = subset(random(), begin);
                drawn.weight += part.weight;
                drawn.sum += part.sum;
            }
            const Pair rest{whole_.weight - drawn.weight, whole_.sum - drawn.sum};
            means.push_back(mean_of(drawn));
            means.push_back(mean_of(rest));
        }
        return means;
    }

private:
    static constexpr size_t kWord = 64;
    struct Pair {
        double weight = 0;
        double sum = 0;  // weight · difference
    };

    // Of the pairs from `begin` on those whose bit is set.
    Pair subset(uint64_t bits, size_t begin) const {
        Pair out;
        const size_t end = std::min(pairs_.size(), begin + kWord);
        for (size_t i = begin; i < end; ++i, bits >>= 1) {
            const auto is_in = static_cast<double>(bits & 1U);
            out.weight += is_in * pairs_[i].weight;
            out.sum += is_in * pairs_[i].sum;
        }
        return out;
    }
    // A draw of no pairs is the pattern seen itself: as far on either side.
    double mean_of(const Pair & subset) const {
        if (std::abs(subset.sum) <= kSlack * size_ || subset.weight <= kSlack) { return 0; }
        return subset.sum / subset.weight;
    }

    std::vector<Pair> pairs_;
    Pair whole_;
    double size_ = 0;
};

double nth(std::vector<double> & values, int64_t n) {
    std::nth_element(values.begin(), values.begin() + n, values.end());
    return values[static_cast<size_t>(n)];
}

}  // namespace

PairedTest paired_test(const std::vector<std::vector<double>> & strata) {
    for (const std::vector<double> & stratum : strata) {
        if (!std::ranges::all_of(stratum, [](double one) { return std::isfinite(one); })) {
            PairedTest none;
            none.difference = std::numeric_limits<double>::quiet_NaN();
            return none;
        }
    }
    const Subsets subsets(strata);
    std::vector<double> means = subsets.means();
    const auto n_patterns = static_cast<int64_t>(means.size()) + 1;  // the empty set besides
    const auto below = std::count_if(means.begin(), means.end(), [](double mean) { return mean <= 0; });
    const auto above = std::count_if(means.begin(), means.end(), [](double mean) { return mean >= 0; });
    PairedTest out;
    out.is_exact = subsets.is_small();
    out.difference = subsets.mean();
    out.p = std::min(1.0, 2.0 * static_cast<double>(std::min(below, above) + 1) / static_cast<double>(n_patterns));
    // 2·(k + 1) / patterns >= 0.05. Neither 2^n nor 2·20,000 + 2 is a multiple of 40, so no p is 0.05 itself.
    const int64_t k = (n_patterns + kTailsInWhole - 1) / kTailsInWhole - 1;
    if (k >= 1) { out.interval = {nth(means, k - 1), nth(means, static_cast<int64_t>(means.size()) - k)}; }
    return out;
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
