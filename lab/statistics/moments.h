// moments.h - means and standard deviations of many numbers at once, as vectors of them come one by one. Stage: statistics.
// Pure.   Memory: two numbers for each.   Source: Welford (1962): no difference of large sums.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace pith {

class Moments {
public:
    // REQUIRES: as many numbers as the first time.
    void add(std::span<const double> values) {
        if (n_ == 0) {
            mean_.assign(values.size(), 0.0);
            squares_.assign(values.size(), 0.0);
        }
        ++n_;
        for (size_t i = 0; i < values.size(); ++i) {
            const double from_old = values[i] - mean_[i];
            mean_[i] += from_old / n_;
            squares_[i] += from_old * (values[i] - mean_[i]);
        }
    }

    int n() const { return n_; }
    const std::vector<double> & mean() const { return mean_; }
    // Over n - 1; 0 for one value.
    std::vector<double> deviation() const {
        std::vector<double> out(squares_.size(), 0.0);
        for (size_t i = 0; n_ > 1 && i < out.size(); ++i) { out[i] = std::sqrt(squares_[i] / (n_ - 1)); }
        return out;
    }

private:
    int n_ = 0;
    std::vector<double> mean_;
    std::vector<double> squares_;  // of the distances to the mean
};

}  // namespace pith
