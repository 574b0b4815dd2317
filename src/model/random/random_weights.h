// random_weights.h - normally distributed weights, quantised row by row on all cores. Stage: model.
// A weight is the sum of two entries of two fixed blocks of normals, (a[i + j] + b[k + j]) / sqrt(2), the offsets drawn per
// row: one addition a weight instead of one logarithm, and no two rows alike (2^38 pairs of offsets).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

struct RandomTensor {
    std::string_view name;  // with the seed, decides the values
    int64_t n_per_row = 0;
    int64_t n_rows = 0;
    float mean = 0.0F;
    float std_dev = 1.0F;
    int ggml_type = 0;
};

// Threads: const-safe; write() starts its own.
class RandomWeights {
public:
    explicit RandomWeights(uint64_t seed);

    // Calls sink with the tensor's bytes, in order. Stops at the first error that the sink returns.
    using Sink = std::function<Status(const void * data, size_t size_bytes)>;
    Status write(const RandomTensor & tensor, const Sink & sink) const;

    // The tensor's values before quantisation.
    void fill(const RandomTensor & tensor, int64_t first_row, int64_t n_rows, float * out) const;

private:
    uint64_t seed_;
    std::vector<float> block_;
};

}  // namespace pith
