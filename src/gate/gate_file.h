// gate_file.h - trained gates as a GGUF beside their model. Stage: gate.
//
//   general.architecture      "pith-gate"
//   pith.gate.version         1
//   pith.gate.kind, .source, .heads, .head_dim, .causal, .recent, .first_layer, .tau, .gamma      see gate_config.h
//   pith.gate.model.*         fingerprint of the model it was made for (model/fingerprint.h)
//   pith.gate.training.*      how it was trained; told to the user, read by no computation
//   gate.LAYER.*              tensors f32 (gate_graph.h)
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gate/gate_config.h"
#include "gate/gate_graph.h"
#include "model/fingerprint.h"
#include "model/model_file.h"
#include "pith/status.h"

struct ggml_context;
struct ggml_backend_buffer;

namespace pith {

struct GateTraining {
    float alpha = 0;       // weight of the eviction loss
    float beta = 0;        // mean retention below which it no longer pushes
    int64_t n_steps = 0;   // of the optimiser
    int64_t n_tokens = 0;  // seen
    float retention = 0;   // share of the entries kept at the end of training, mean over layers
};

// Loaded gates; the weights live as long as the object. Threads: const-safe.
class Gate {
public:
    // Errors: kNotFound (path), kBadFile (truncated, no gate file, a tensor missing, of a wrong shape or not finite; names it),
    //         kInvalidArgument (made for another model: names the number that differs).
    // REQUIRES: load_backends() succeeded (a ModelFile was loaded).
    static Result<std::shared_ptr<const Gate>> load(const std::string & path, const ModelFile & model);
    ~Gate();
    Gate(const Gate &) = delete;
    Gate & operator=(const Gate &) = delete;

    const GateConfig & config() const { return config_; }
    const GateWeights & weights() const { return weights_; }
    const GateTraining & training() const { return training_; }
    int64_t n_params() const { return n_params_; }

private:
    Gate() = default;
    GateConfig config_;
    GateTraining training_;
    GateWeights weights_;
    int64_t n_params_ = 0;
    ggml_context * ctx_ = nullptr;
    ggml_backend_buffer * buffer_ = nullptr;
};

// Written beside the target and renamed: a failure leaves what was there. Errors: kIo (path and reason).
// REQUIRES: the tensors of `weights` are in host memory and have the shapes of gate_tensors().
Status save_gate(const std::string & path, const GateConfig & config, const GateWeights & weights,
                 const GateTraining & training, const ModelFile & model);

}  // namespace pith
