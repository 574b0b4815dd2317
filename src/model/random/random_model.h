// random_model.h - writes GGUF models of any shape with random weights: for tests, and for measuring speed. Stage: model.
// Weights are drawn by (seed, tensor name, row): the same spec gives the same bytes on every machine and thread count.
// Activations stay near 1: weights have standard deviation 1/sqrt(fan in), norms are near 1.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/arch/hparams.h"
#include "pith/status.h"

namespace pith {

// A list of one value a layer: these, over and over.
template <typename T>
struct RandomList {
    std::vector<T> values;
    bool operator==(const RandomList &) const = default;
};

// A metadata key behind "<architecture>." and what it says.
using RandomKey =
    std::pair<std::string,
              std::variant<bool, uint32_t, float, std::string, std::vector<int32_t>, RandomList<int32_t>, RandomList<bool>>>;

struct RandomModelSpec {
    std::string arch = "llama";  // one of arch/architectures.def
    std::string name = "random";
    int n_layers = 2;
    int n_embd = 64;
    int n_heads = 4;
    int n_kv_heads = 2;
    int head_dim = 16;
    int n_ff = 128;  // of dense layers
    int n_vocab = 512;
    int n_ctx_train = 2048;
    int n_experts = 0;  // 0: dense. llama with experts is Mixtral
    int n_experts_used = 0;
    int n_ff_expert = 0;
    int window = 0;     // what layers with a window see, where the architecture has such layers
    bool tied = false;  // the output matrix is the embedding
    float rope_base = 10000.0F;
    RopeScaling rope_scaling = RopeScaling::kNone;
    float rope_factor = 1.0F;   // of linear and YaRN scaling, and of llama3_freqs (8 there when it is 1)
    int rope_n_ctx_orig = 0;    // 0: n_ctx_train / factor
    bool llama3_freqs = false;  // a rope_freqs tensor as Llama 3.1 has
    // A ggml type in its own spelling ("f32", "q8_0", "q4_K", …), or a mixture of them as files of the hub have it: "q4_K_M",
    // "mxfp4_moe" (experts; all else q8_0). A matrix whose rows are no multiple of the type's block
    // falls back to q8_0, then to f16; norms, biases and routers are f32.
    std::string weight_type = "f32";
    bool byte_tokens = true;  // false: a vocabulary that no text can be trusted to (a bad-input test)
    uint64_t seed = 1;
    int n_splits = 1;             // files; see random_model_files
    std::vector<RandomKey> keys;  // what else the architecture reads; one of the above that is here, too, is as said here
    bool operator==(const RandomModelSpec &) const = default;
};

// Shapes of published models by name ("1b": Llama 3.2).   Errors: kInvalidArgument, naming the shapes there are.
Result<RandomModelSpec> shape_preset(std::string_view name);
// "0.5b, 1b, …"
std::string shape_names();

// The files that write_random_model leaves: `path`, or for n_splits > 1 "name-00001-of-00003.gguf" and so on, beside it.
std::vector<std::string> random_model_files(const RandomModelSpec & spec, const std::string & path);

// Written beside the target and renamed at the end: a failure leaves no file.
// progress may be empty; false cancels.
// Errors: kInvalidArgument (names the field), kIo (path and reason), kCancelled.
// Cost:   memory of about 16 MiB a thread, whatever the size of the model.   Threads: reentrant; starts its own.
Status write_random_model(const RandomModelSpec & spec, const std::string & path,
                          const std::function<bool(double fraction)> & progress = {});

}  // namespace pith
