// random_tensors.h - which tensors a random model has, with shapes, types and spreads. Stage: model.
// Names and shapes are those that libllama reads.
#pragma once

#include <ggml.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/random/random_model.h"
#include "pith/status.h"

namespace pith {

struct RandomTensorSpec {
    std::string name;
    std::array<int64_t, 3> ne = {1, 1, 1};
    int n_dims = 1;
    ggml_type type = GGML_TYPE_F32;
    float mean = 0.0F;
    float std_dev = 1.0F;
    std::vector<float> values;  // given ones instead of random ones
    size_t size_bytes() const { return ggml_row_size(type, ne[0]) * static_cast<size_t>(ne[1] * ne[2]); }
};

// Every tensor of the model, in file order.
// Errors: kInvalidArgument, naming the field of the spec, its value and its limits.
Result<std::vector<RandomTensorSpec>> list_random_tensors(const RandomModelSpec & spec);

}  // namespace pith
