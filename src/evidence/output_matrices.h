// output_matrices.h - the output projections of a model as evidence needs them. Stage: attention → evidence.
// One object for all sessions of a model, so that what is large (factors, projections in bytes) is made and held once.
// Threads: safe.
#pragma once

#include <memory>
#include <utility>

#include "evidence/byte_projection.h"
#include "model/output_factors.h"

namespace pith {

struct OutputMatrices {
    explicit OutputMatrices(const std::shared_ptr<const ModelFile> & file) : factors(file), projections(file) {}
    size_t size_bytes() const { return factors.size_bytes() + projections.size_bytes(); }

    OutputFactors factors;
    ByteProjections projections;
};

}  // namespace pith
