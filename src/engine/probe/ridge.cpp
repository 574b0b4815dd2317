// ridge.cpp - the normal equations, centred and scaled, by Cholesky's factors.
#include "engine/probe/ridge.h"

#include <algorithm>
#include <cmath>

namespace pith {
namespace {

// Eight sums side by side, which the compiler keeps in a vector.
template <class T>
double dot(const T * a, const T * b, size_t n) {
    T sums[8] = {};
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t k = 0; k < 8; ++k) { sums[k] += a[i + k] * b[i + k]; }
    }
    double sum = 0;
    for (; i < n; ++i) { sum += double{a[i]} * b[i]; }
    for (const T one : sums) { sum += one; }
    return sum;
}

// matrix [n][n], symmetric and positive: its lower triangle becomes L of L·Lᵀ.
void factorise(std::vector<double> & matrix, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        double * row = matrix.data() + i * n;
        for (size_t j = 0; j < i; ++j) {
            const double * other = matrix.data() + j * n;
            row[j] = (row[j] - dot(row, other, j)) / other[j];
        }
        row[i] = std::sqrt(row[i] - dot(row, row, i));
    }
}

// x of L·Lᵀ·x = b, in its place.
void solve_by(const std::vector<double> & factors, size_t n, std::vector<double> & b) {
    for (size_t i = 0; i < n; ++i) {
        const double * row = factors.data() + i * n;
        b[i] = (b[i] - dot(row, b.data(), i)) / row[i];
    }
    for (size_t i = n; i-- > 0;) {
        const double * row = factors.data() + i * n;
        b[i] /= row[i];
        for (size_t j = 0; j < i; ++j) { b[j] -= row[j] * b[i]; }
    }
}

}  // namespace

RidgeSums::RidgeSums(int n_features, int n_targets)
    : n_features_(static_cast<size_t>(n_features)),
      n_targets_(static_cast<size_t>(n_targets)),
      products_(n_features_ * n_features_),
      sums_(n_features_),
      cross_(n_targets_ * n_features_),
      targets_(n_targets_) {}

void RidgeSums::add(std::span<const float> x, std::span<const float> y, std::span<const float> products) {
    const size_t n = x.size() / n_features_;
    for (size_t i = 0; i < products.size(); ++i) { products_[i] += products[i]; }
    for (size_t i = 0; i < n; ++i) {
        const float * row = x.data() + i * n_features_;
        for (size_t f = 0; f < n_features_; ++f) { sums_[f] += row[f]; }
        for (size_t t = 0; t < n_targets_; ++t) {
            const double target = y[i * n_targets_ + t];
            targets_[t] += target;
            double * cross = cross_.data() + t * n_features_;
            for (size_t f = 0; f < n_features_; ++f) { cross[f] += target * row[f]; }
        }
    }
    n_samples_ += static_cast<int64_t>(n);
}

double RidgeSums::Fit::predict(size_t target, std::span<const float> x) const {
    return bias[target] + dot(weights.data() + target * x.size(), x.data(), x.size());
}

RidgeSums::Fit RidgeSums::solve(double lambda) const {
    const size_t n = n_features_;
    const auto count = static_cast<double>(n_samples_);
    std::vector<double> scale(n);  // 1 over a feature's spread; 0: it never varied
    for (size_t f = 0; f < n; ++f) {
        const double mean = sums_[f] / count;
        const double square = products_[f * n + f] / count;
        const double variance = square - mean * mean;
        scale[f] = variance > 1e-6 * square ? 1 / std::sqrt(variance) : 0.0;
    }
    std::vector<double> matrix(n * n);
    for (size_t f = 0; f < n; ++f) {
        for (size_t g = 0; g <= f; ++g) {
            const double covariance = products_[f * n + g] / count - sums_[f] / count * (sums_[g] / count);
            matrix[f * n + g] = covariance * scale[f] * scale[g];
        }
        matrix[f * n + f] = (scale[f] > 0 ? 1.0 : 0.0) + lambda;
    }
    factorise(matrix, n);
    Fit fit;
    fit.weights.resize(n_targets_ * n);
    std::vector<double> b(n);
    for (size_t t = 0; t < n_targets_; ++t) {
        const double mean = targets_[t] / count;
        for (size_t f = 0; f < n; ++f) { b[f] = (cross_[t * n + f] / count - mean * (sums_[f] / count)) * scale[f]; }
        solve_by(matrix, n, b);
        double bias = mean;
        for (size_t f = 0; f < n; ++f) {
            const double weight = b[f] * scale[f];
            fit.weights[t * n + f] = static_cast<float>(weight);
            bias -= weight * (sums_[f] / count);
        }
        fit.bias.push_back(static_cast<float>(bias));
    }
    return fit;
}

}  // namespace pith
