// significance.h - could two sets of paired scores differ by chance, and by how much do they? Stage: statistics.
// Pure and deterministic: what is drawn is drawn with fixed seeds.   Threads: const-safe.
//
// One test gives the p-value and the interval, so they cannot contradict each other: p < 0.05 exactly where the interval leaves
// out 0. If both sides were the same, each difference could as well have had the other sign; p is the share of sign patterns
// whose mean is as far from 0 as the one seen, two-sided. The interval holds every shift that the same test, with the same
// patterns, does not reject at 5 % once it is taken off all differences. For a pattern that flips the pairs S that is so
// exactly where the mean over S is beyond the shift, so the interval's ends are order statistics of the subsets' means:
//   statistic   mean over strata (tasks) of the mean of a stratum's differences: Σ w_i·d_i, w_i = 1 / (strata · stratum's size)
//   subset      m(S) = Σ_S w_i·d_i / Σ_S w_i
//   p           2·min(share of S with m(S) <= 0, share with m(S) >= 0), the empty set in both
//   interval    the k-th smallest to the k-th largest m(S), k the least number for which 2·(k + 1) / patterns >= 0.05
// Right or wrong, in one stratum, p is McNemar's exact test. Differences that are all alike have a point as interval: nothing
// was seen to vary, which says nothing of samples that were not asked. The interval's level is exact where all differences are
// symmetric about one mean. Where tasks have means of their own it is wider than it need be; where hardly any sample differs,
// and those few in one direction, it is too narrow: so many samples bound what they did not show by about 3 / pairs only.
// Source: Hartigan, JASA 64, 1969 (typical values); Fisher's sign-flip test.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "core/interval.h"

namespace pith {

struct PairedTest {
    double difference = 0;
    // 95 %; without an end where so few pairs can show nothing (five or fewer).
    Interval interval{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    double p = 1;          // two-sided
    bool is_exact = true;  // all sign patterns (up to 16 pairs), else 20,000 drawn ones with their opposites
};

// Strata without differences count as not there. A difference that is no number, or infinite, says nothing: p = 1, no interval.
// REQUIRES: a difference at least.   Cost: O(pairs) for each pattern.
PairedTest paired_test(const std::vector<std::vector<double>> & strata);

// Holm's step-down adjustment for so many tests at once.
std::vector<double> holm(std::span<const double> p);

}  // namespace pith
