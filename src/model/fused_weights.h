// fused_weights.h - tensors of a file that hold several matrices, one below the other, and what each is by itself. Stage:
// model. A matrix is a run of rows, and a row is whole in every type: the parts are used where they lie, each placed, repacked,
// adapted and trained as if the file had it alone.
#pragma once

#include <string>
#include <vector>

#include "file/gguf_header.h"
#include "model/arch/hparams.h"
#include "pith/status.h"

namespace pith {

struct FusedWeight {
    struct Part {
        std::string name;
        int64_t n_rows;
    };
    std::string name;
    std::vector<Part> parts;
};

// Which tensors of such a model's file may hold several, matrices and biases: queries, keys and values; gate and up.
std::vector<FusedWeight> fused_weights(const Hparams & hparams);

// The parts of `tensor`, in order. Errors: kBadFile where the rows do not add up (names both counts).
Result<std::vector<GgufTensor>> split_rows(const GgufTensor & tensor, const FusedWeight & fused, const std::string & path);

}  // namespace pith
