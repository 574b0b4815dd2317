// parameter_set.h - what a run learns: tensors with their gradients and AdamW's moments. Stage: train.
// All f32, owned here, so that a checkpoint holds everything that a run needs to go on exactly.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pith/status.h"

struct ggml_backend_buffer;
struct ggml_context;
struct ggml_tensor;

namespace pith::train {

// How a parameter begins.
struct Initial {
    enum class Kind { kConstant, kNormal, kUniform } kind = Kind::kConstant;
    float size = 0.0F;  // the constant, the standard deviation, or the bound
};
inline Initial constant(float value) {
    return {Initial::Kind::kConstant, value};
}
inline Initial normal(float deviation) {
    return {Initial::Kind::kNormal, deviation};
}
// Uniform within ±sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010).
Initial xavier(int64_t fan_in, int64_t fan_out);

struct Parameter {
    std::string name;  // as in the file
    ggml_tensor * value = nullptr;
    ggml_tensor * gradient = nullptr;
    ggml_tensor * m = nullptr;  // AdamW's first and second moment
    ggml_tensor * v = nullptr;
    bool decays = false;  // matrices; not norms and biases
    Initial initial;
};

class ParameterSet {
public:
    ParameterSet() = default;
    virtual ~ParameterSet();
    ParameterSet(const ParameterSet &) = delete;
    ParameterSet & operator=(const ParameterSet &) = delete;

    // First all parameters are added, ne1 0 for a vector; then allocate() gives them memory and initialises with seed 1.
    // Errors: kOutOfMemory.
    Status begin(size_t n_parameters);
    ggml_tensor * add(const std::string & name, int64_t ne0, int64_t ne1, Initial initial);
    Status allocate();

    void initialise(uint64_t seed);  // values anew, zero moments
    void zero_gradients();

    std::vector<Parameter> & list() { return list_; }
    const std::vector<Parameter> & list() const { return list_; }
    int64_t n_params() const;
    size_t size_bytes() const;

private:
    std::vector<Parameter> list_;
    ggml_context * ctx_ = nullptr;
    ggml_backend_buffer * buffer_ = nullptr;
};

// The values of a tensor in host memory.
float * values(ggml_tensor * tensor);
const float * values(const ggml_tensor * tensor);

}  // namespace pith::train
