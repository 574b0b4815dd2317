// weight_table.h - which tensors an architecture has, under which names, with which shapes. Stage: model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/arch/hparams.h"
#include "model/weights.h"

namespace pith {

enum class WeightUse {
    kVector,   // norms, biases, frequency factors: f32 in memory, read element by element
    kRows,     // rows are looked up: must stay plain
    kMatmul,   // the left side of mul_mat: may be repacked
    kExperts,  // the left side of mul_mat_id: may be repacked
};

struct WantedWeight {
    std::string name;
    std::array<int64_t, 4> ne;
    WeightUse use;
    bool required;
    ggml_tensor ** slot;     // into the Weights given to wanted_weights
    std::string unless;      // the tensor that files may have in its place, alone or with others; empty: none
    std::string other_name;  // of this tensor in files of other converters; empty: none
};

// Sizes `weights.layers` and lists every tensor the model may have. The slots stay valid while weights.layers is not resized.
std::vector<WantedWeight> wanted_weights(const Hparams & hparams, Weights & weights);

}  // namespace pith
