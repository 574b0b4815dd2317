// interval.h - how far a mean of samples may be off: 95 % intervals. Stage: eval.
#pragma once

#include <cstdint>
#include <span>

namespace pith {

struct Interval {
    double low = 0;
    double high = 0;
    bool operator==(const Interval &) const = default;
};

// Of the probability of success, n_right of n trials. Wilson's score interval: stays within 0 … 1, and has a width even when
// all or none are right. REQUIRES: 0 <= n_right <= n.   n = 0: [0, 1].
Interval wilson_interval(double n_right, int64_t n);

// Of the mean of `values`: percentile bootstrap, seeded, so that the same values give the same interval. Empty: [0, 0].
// Cost: O(n) for each of 2,000 resamples.
Interval bootstrap_interval(std::span<const double> values, uint64_t seed = 1);

// Of the mean of scores: Wilson's where each is 0 or 1, else the bootstrap's.
Interval score_interval(std::span<const double> scores);

}  // namespace pith
