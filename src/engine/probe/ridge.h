// ridge.h - linear regression with a penalty, from sums over samples that need not be kept. Stage: probe.
// Pure C++: no ggml, no I/O.
//
// Minimises Σ_i (y_i - w·x_i - b)² + λ·n·Σ_f var(x_f)·w_f²: the penalty counts every feature in units of its own spread, since
// hidden states have a few dimensions that are a hundred times as wide as the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pith {

class RidgeSums {
public:
    RidgeSums(int n_features, int n_targets);

    // x [n][features], y [n][targets], products [features][features] = Σ_i x_i·x_iᵀ of these samples.
    // Cost: features² + n · features · targets.
    void add(std::span<const float> x, std::span<const float> y, std::span<const float> products);

    struct Fit {
        std::vector<float> weights;  // [targets][features]
        std::vector<float> bias;     // [targets]

        // x [features].
        double predict(size_t target, std::span<const float> x) const;
    };
    // Features that never varied get no weight. REQUIRES: lambda > 0, something was added.
    // Cost: features³/3 in f64, features² doubles of memory.   Throws std::bad_alloc.
    Fit solve(double lambda) const;

    int64_t n_samples() const { return n_samples_; }

private:
    size_t n_features_;
    size_t n_targets_;
    int64_t n_samples_ = 0;
    std::vector<float> products_;  // [features][features]; f32, since of a large model they are gigabytes
    std::vector<double> sums_;     // [features]
    std::vector<double> cross_;    // [targets][features]
    std::vector<double> targets_;  // [targets]: their sums
};

}  // namespace pith
