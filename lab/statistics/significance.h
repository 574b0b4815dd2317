// significance.h - could two sets of paired scores differ by chance? Stage: statistics.
// Pure and deterministic: what is drawn is drawn with fixed seeds.   Threads: const-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace pith {

// Two-sided p-values of "both come from the same".
//
// McNemar's exact test: of n_first + n_second discordant pairs so many speak for either side; binomial with ½.
double mcnemar_p(int n_first, int n_second);

// Sign-flip permutation test of the mean of the strata's mean differences: over all sign patterns where there are at most 2^16
// of them, else over 20,000 random ones (p = (hits + 1) / (draws + 1)). Differences of 0 do not matter to it.
double permutation_p(const std::vector<std::vector<double>> & strata);

// One set of differences: McNemar where each is −1, 0 or 1, else the permutation test; says which.
struct PairedTest {
    double p = 1;
    std::string name;  // "McNemar", "permutation"
};
PairedTest paired_test(const std::vector<double> & differences);

// Holm's step-down adjustment for so many tests at once.
std::vector<double> holm(std::span<const double> p);

}  // namespace pith
