// parameters.h - the weights of a model in training, their gradients and AdamW's moments. Stage: train.
// All f32, owned here, so that a checkpoint holds everything that a run needs to go on exactly.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/hparams.h"
#include "model/weights.h"
#include "pith/status.h"

typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
struct ggml_context;
struct ggml_tensor;

namespace pith::train {

struct ModelShape {
    int n_vocab = 0;
    int n_layers = 4;
    int n_embd = 128;
    int n_heads = 4;
    int n_kv_heads = 2;
    int head_dim = 32;
    int n_ff = 256;
    int n_ctx = 4096;  // stated in the GGUF
    float rope_base = 10000.0F;
    bool tied = false;  // the output matrix is the embedding

    Status check() const;
    Hparams hparams() const;
};

struct Parameter {
    std::string name;  // as in the GGUF
    ggml_tensor * value = nullptr;
    ggml_tensor * gradient = nullptr;
    ggml_tensor * m = nullptr;  // AdamW's first and second moment
    ggml_tensor * v = nullptr;
    bool decays = false;    // matrices; not norms
    float init_std = 0.0F;  // 0: ones
};

class Parameters {
public:
    // Errors: kInvalidArgument (shape), kOutOfMemory.
    static Result<std::unique_ptr<Parameters>> make(const ModelShape & shape, ggml_backend_t backend);
    ~Parameters();

    void initialise(uint64_t seed);  // normal weights, zero moments
    void zero_gradients();

    const ModelShape & shape() const { return shape_; }
    const Hparams & hparams() const { return hparams_; }
    const Weights & weights() const { return weights_; }
    std::vector<Parameter> & list() { return list_; }
    const std::vector<Parameter> & list() const { return list_; }
    int64_t n_params() const;

private:
    Parameters() = default;
    ggml_tensor * add(const std::string & name, int64_t ne0, int64_t ne1, float init_std);

    ModelShape shape_;
    Hparams hparams_;
    Weights weights_;
    std::vector<Parameter> list_;
    ggml_context * ctx_ = nullptr;
    ggml_backend_buffer_t buffer_ = nullptr;
};

// The values of a tensor in host memory.
float * values(ggml_tensor * tensor);
const float * values(const ggml_tensor * tensor);

}  // namespace pith::train
