// model.h - a loaded GGUF model; sessions are made from it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pith/batch_engine.h"
#include "pith/devices.h"
#include "pith/session.h"
#include "pith/status.h"

namespace pith {

struct ModelOptions {
    bool use_mmap = true;
    bool repack = true;                             // repacked weights where the CPU offers them
    std::function<bool(double fraction)> progress;  // false cancels
    std::string lora_file;                          // a LoRA adapter as GGUF, of llama.cpp's or `pith train sft`; empty: none
    float lora_scale = 1.0F;                        // the adapter counts so many times; 0: not at all
    // Gates, of `pith train gate` or `pith calibrate importance`. Empty: what the latter wrote beside the model
    // (model.importance.gguf for model.gguf), where that is there and fits; `none`: not looked for.
    std::string gate_file;
    DeviceOptions devices;  // which layers' weights lie on which devices
};

// The weights of one ggml type.
struct WeightShare {
    std::string type;  // "q4_K"
    int64_t n_weights = 0;
    int n_tensors = 0;
    size_t bytes = 0;
};

struct ModelInfo {
    std::string path;
    std::string architecture;
    std::string name;
    std::string file_type;    // what the file says its weights are: "Q4_K - Medium"; "mostly q8_0" where it says nothing
    std::string weight_type;  // most weight bytes have it
    std::vector<WeightShare> weight_types;  // most bytes first
    int64_t n_params = 0;
    size_t weight_bytes = 0;
    size_t weight_bytes_per_token = 0;  // of these, what generating one token reads: no rows looked up, chosen experts alone
    int n_layers = 0;
    int n_heads = 0;
    int n_kv_heads = 0;
    int head_dim = 0;
    int n_embd = 0;
    int n_vocab = 0;
    int n_ctx_train = 0;
    int n_experts = 0;
    bool has_gates = false;       // gates that evict by themselves
    bool has_importance = false;  // gates that say how much an entry matters, for policy `gate` and `auto`
};

// A handle: copies share the weights. Threads: const-safe; sessions of one model may run on several threads.
class Model {
public:
    // Errors: kNotFound, kBadFile, kUnsupported, kOutOfMemory, kCancelled; kInvalidArgument: an adapter or gates that do not
    // fit the model, or a scale without an adapter. Every message names the file.
    // With devices also those of list_devices(), kNotFound (there is no such device), kUnsupported (one cannot multiply by a
    // weight; gates), kOutOfMemory (one has no room), kIo (one failed).
    static Result<Model> load(const std::string & path, const ModelOptions & options = {});

    const ModelInfo & info() const;
    // What lies on devices; empty: all of it is computed on the CPU.
    // Where a device fails and ggml says so on the calling thread, the call ends with kIo, and the session is as before it.
    // Where an RPC server goes, ggml ends the process (device_failure.h).
    std::vector<DeviceUse> devices() const;
    Result<Session> session(const SessionOptions & options = {}) const;
    // A session that was saved (Session::save), under the settings it was saved with. n_threads: as SessionOptions has it.
    // Errors: as Session::load(), settings aside.
    Result<Session> open_session(const std::string & path, int n_threads = 0) const;
    // For many sequences at once (batch_engine.h).
    Result<Engine> engine(const EngineOptions & options) const;

    Model(const Model &) = default;
    Model & operator=(const Model &) = default;
    ~Model();

    struct Impl;

private:
    explicit Model(std::shared_ptr<const Impl> impl);
    std::shared_ptr<const Impl> impl_;
};

}  // namespace pith
