// interval.h - how far a mean of samples may be off: 95 % intervals. Stage: core.
//
// Scores lie in 0 … 1, and a mean near an end has no room beyond it: mean ± 1.96 standard errors leaves the range, and like the
// bootstrap it shrinks to a point where all scores are alike, as after 0 of 30. Wilson's score interval does neither, for
// scores that are right or wrong. score_interval carries it over to shares:
//   ratio = variance / m(1 − m) of the scores and two more, a 0 and a 1 (m: their mean)   1 where scores are right or wrong,
//                                                                                       less where they lie between
//   interval = Wilson's for the scores' mean of n / ratio trials
// So it is exactly Wilson's for right and wrong, stays within 0 … 1, always has a width, and needs no chance. Tried on nine
// kinds of scores, 5 to 100 samples: it holds the true mean in 94 to 100 % of cases (one of nine at 5 samples: 86 %); the
// percentile bootstrap in 11 to 96 %. Means of several tasks: MOVER (Zou and Donner, Statistics in Medicine 27, 2008), which
// adds up the squared distances from each mean to the ends of its own interval; no wider than the mean of the intervals, so
// within 0 … 1 as they are, too. Sources: Wilson, JASA 22, 1927; the added 0 and 1: Agresti and Coull, The American
// Statistician 52, 1998.
#pragma once

#include <cstdint>
#include <span>

namespace pith {

struct Interval {
    double low = 0;
    double high = 0;
    bool operator==(const Interval &) const = default;
};

// A mean and its interval.
struct Estimate {
    double mean = 0;
    Interval interval;
};

// Of the probability of success, n_right of n trials (either need not be whole). Wilson's score interval: stays within 0 … 1,
// and has a width even when all or none are right. REQUIRES: 0 <= n_right <= n.   n = 0: [0, 1].
Interval wilson_interval(double n_right, double n);

// Of the mean of scores in 0 … 1, as above. Empty: [0, 1].
Interval score_interval(std::span<const double> scores);

// The unweighted mean of independent means. REQUIRES: one or more, each mean within its interval.
Estimate mean_of(std::span<const Estimate> parts);

// Of the mean of values without a range (perplexities, cosines): percentile bootstrap, seeded, so that the same values give the
// same interval. Empty: [0, 0].   Cost: O(n) for each of 2,000 resamples.
Interval bootstrap_interval(std::span<const double> values, uint64_t seed = 1);

}  // namespace pith
