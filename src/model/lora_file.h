// lora_file.h - LoRA adapters as GGUF, in the form that llama.cpp reads and writes. Stage: model.
//
//   general.type "adapter", general.architecture the model's, adapter.type "lora", adapter.lora.alpha f32
//   NAME.lora_a [n, rank], NAME.lora_b [rank, m] for the model's tensor NAME [n, m]; scale = alpha / rank
// Read here: adapters of attn_q, attn_k, attn_v and attn_output, f32, f16 or any type that can be dequantised.
// Source: llama.cpp, llama-adapter.cpp and convert_lora_to_gguf.py.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "model/weights.h"
#include "pith/status.h"

struct ggml_context;
struct ggml_backend_buffer;

namespace pith {

// The four matrices of a layer that an adapter may have, and the ends of their tensors' names.
struct LoraTarget {
    const char * name;  // "attn_q"
    ggml_tensor * LayerWeights::*weight;
    LoraPair LayerWeights::*pair;
};
const std::vector<LoraTarget> & lora_targets();

// An adapter in memory. Threads: const-safe.
class LoraAdapter {
public:
    // Errors: kNotFound, kBadFile (truncated, no adapter, half a pair, a number that is not finite),
    //         kInvalidArgument (of another architecture, or a shape that does not fit: names the tensor and both shapes),
    //         kUnsupported (an adapter of other matrices: names the first).
    // REQUIRES: load_backends() succeeded (a ModelFile was loaded).
    static Result<std::shared_ptr<const LoraAdapter>> load(const std::string & path, const ModelFile & model);
    ~LoraAdapter();
    LoraAdapter(const LoraAdapter &) = delete;
    LoraAdapter & operator=(const LoraAdapter &) = delete;

    // `weights` with the adapter's pairs, each times `strength`, those that come to nothing left out; it refers to both.
    Weights apply(const Weights & weights, float strength = 1.0F) const;
    int rank() const { return rank_; }  // of the widest pair
    size_t n_pairs() const { return n_pairs_; }
    const std::string & path() const { return path_; }
    const std::string & hash() const { return hash_; }  // of alpha and of all tensors: names, types, shapes, bytes

private:
    LoraAdapter() = default;
    Weights pairs_;  // nothing but the pairs
    int rank_ = 0;
    size_t n_pairs_ = 0;
    std::string path_;
    std::string hash_;
    ggml_context * ctx_ = nullptr;
    ggml_backend_buffer * buffer_ = nullptr;
};

// What an adapter's file says of itself, without its model.
struct LoraFileInfo {
    std::string architecture;
    double alpha = 0;  // 0: each pair counts once
    int rank = 0;      // of the widest pair
    int n_layers = 0;  // that have a pair
    struct Target {
        std::string name;  // "attn_q"
        int n_pairs = 0;
        int64_t n_in = 0, n_out = 0;  // shape of the matrix, of the first pair
    };
    std::vector<Target> targets;  // in the order of the file
    int64_t n_params = 0;
    size_t size_bytes = 0;  // of the tensors
};
// Any LoRA adapter, also one of matrices that LoraAdapter::load refuses.   Errors: kNotFound, kBadFile.
Result<LoraFileInfo> read_lora_info(const std::string & path);

// Writes the pairs of `weights`. All have the same scale; alpha = scale · rank.
// Written beside the target and renamed. Errors: kIo.   REQUIRES: pairs in host memory, f32.
Status save_lora(const std::string & path, const Weights & weights, const ModelFile & model);

}  // namespace pith
