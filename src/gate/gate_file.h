// gate_file.h - trained gates as a GGUF beside their model. Stage: gate.
//
//   general.architecture      "pith-gate"
//   pith.gate.version         1
//   pith.gate.kind, .source, .heads, .head_dim, .causal, .recent, .first_layer, .tau, .gamma      see gate_config.h
//   pith.gate.hidden          of an MLP
//   pith.gate.purpose         what the answers are for; absent: "threshold"
//   pith.gate.model.*         fingerprint of the model it was made for (model/fingerprint.h)
//   pith.gate.training.*      how it was trained; told to the user, read by no computation
//   gate.LAYER.*              tensors f32 (gate_graph.h)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gate/gate_config.h"
#include "gate/gate_graph.h"
#include "model/fingerprint.h"
#include "model/model_file.h"
#include "pith/status.h"

struct ggml_context;
struct ggml_backend_buffer;
struct ggml_backend_buffer_type;

namespace pith {

// ModelOptions::gate_file where none are to be looked for.
inline constexpr std::string_view kNoGates = "none";
// What `pith calibrate importance` writes beside model.gguf: model.importance.gguf.
inline constexpr std::string_view kImportanceFileEnd = ".importance.gguf";

struct GateTraining {
    float alpha = 0;       // weight of the eviction loss
    float beta = 0;        // mean retention below which it no longer pushes
    int64_t n_steps = 0;   // of the optimiser
    int64_t n_tokens = 0;  // seen
    float retention = 0;   // share of the entries kept at the end of training, mean over layers
};

// In which types q, k and v may be multiplied where the CPU back end has a faster product of them, in a layout of its own:
// those weights cannot be read back. Where it has none they stay f32.
enum class GateProducts {
    kF32,
    kF16,
    kQ8_0,  // or f16
};

// Loaded gates; the weights live as long as the object. Threads: const-safe.
class Gate {
public:
    // Errors: kNotFound (path), kBadFile (truncated, no gate file, a tensor missing, of a wrong shape or not finite; names it),
    //         kInvalidArgument (made for another model: names the number that differs).
    // REQUIRES: load_backends() succeeded (a ModelFile was loaded).
    static Result<std::shared_ptr<const Gate>> load(const std::string & path, const ModelFile & model,
                                                    GateProducts products = GateProducts::kF32);
    ~Gate();
    Gate(const Gate &) = delete;
    Gate & operator=(const Gate &) = delete;

    const GateConfig & config() const { return config_; }
    const GateWeights & weights() const { return weights_; }
    const GateTraining & training() const { return training_; }
    int64_t n_params() const { return n_params_; }
    const std::string & path() const { return path_; }
    // Of what they compute: the file's metadata but for its model and its training, and all tensors, names and shapes included.
    const std::string & hash() const { return hash_; }

private:
    Gate() = default;
    GateConfig config_;
    GateTraining training_;
    GateWeights weights_;
    int64_t n_params_ = 0;
    std::string path_;
    std::string hash_;
    // Tensors of one buffer type.
    struct Place {
        ggml_backend_buffer_type * type = nullptr;
        ggml_context * ctx = nullptr;
        ggml_backend_buffer * buffer = nullptr;
    };
    std::vector<Place> places_;
};

// What a gate file says of itself, without its model.
struct GateFileInfo {
    GateConfig config;
    GateTraining training;
    Fingerprint model;  // of the model it was made for
    int64_t n_params = 0;
    std::vector<int> layers;  // that have a gate, ascending
};
// Errors: kNotFound, kBadFile, as Gate::load. The tensors are counted, not read.
Result<GateFileInfo> read_gate_info(const std::string & path);

// Written beside the target and renamed: a failure leaves what was there. Errors: kIo (path and reason).
// REQUIRES: the tensors of `weights` are in host memory and have the shapes of gate_tensors().
Status save_gate(const std::string & path, const GateConfig & config, const GateWeights & weights,
                 const GateTraining & training, const ModelFile & model);

}  // namespace pith
