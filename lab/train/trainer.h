// trainer.h - AdamW on batches: gradients, clipping, the step, and checkpoints that go on exactly. Stage: train.
// Each of n_threads workers runs its part of the batch through a graph of its own and their gradients are summed in order:
// the result depends on the number of threads, not on their timing, and no thread waits for another inside a step.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "pith/status.h"
#include "train/graph/parameters.h"
#include "train/graph/step_graph.h"
#include "train/graph/step_model.h"

struct ggml_backend_buffer;

namespace pith::train {

struct AdamW {
    float beta1 = 0.9F;
    float beta2 = 0.98F;
    float epsilon = 1e-8F;
    float weight_decay = 0.05F;  // matrices only
    float clip_norm = 1.0F;      // of all gradients together; 0: none
};

struct StepResult {
    double loss = 0;           // weighted mean nll
    double eviction_loss = 0;  // with gates: alpha · mean over sequences and layers of ReLU(mean - beta)
    double gradient_norm = 0;  // before clipping
    GateCounts gates;
};

// Rows of n for each of n_workers, as even as possible.
std::vector<int> split_rows(int n, int n_workers);

class Trainer {
public:
    // Errors: kInvalidArgument, kOutOfMemory.
    static Result<std::unique_ptr<Trainer>> make(const ModelShape & shape, const AdamW & adamw, int n_threads);
    // A model that the caller keeps. Errors: as check_trainable, too.
    static Result<std::unique_ptr<Trainer>> make(const StepModel & model, const AdamW & adamw, int n_threads);
    ~Trainer();

    // One optimiser step on the mean over `batches` (accumulation), each of the same or another shape.
    // Errors: kNotFinite when loss or gradient is not finite (the parameters are untouched).
    Result<StepResult> step(const std::vector<Batch> & batches, float learning_rate);
    Result<BatchLoss> evaluate(const Batch & batch);

    // All but the update, and the memory of its graphs: what a step will take. The gradients are thrown away.
    struct Cost {
        double seconds = 0;
        size_t graph_bytes = 0;
    };
    Result<Cost> measure(const Batch & batch);

    Parameters & parameters() { return *owned_; }  // REQUIRES: made from a shape
    // Products with operands rounded to bf16 where the processor has a unit for them: several times faster.
    void use_bf16(bool on) { bf16_ = on; }
    int64_t n_steps() const { return n_steps_; }
    int n_threads() const { return static_cast<int>(backends_.size()); }
    // Graphs of shapes no longer used give their memory back.
    void forget_graphs();

    // A checkpoint: weights, moments, the step, and the caller's own words (`fingerprint` must match on loading; `state` is
    // handed back). Appears whole or not at all (file/new_file.h).
    // Errors: kIo; on loading kNotFound, kBadFile, kInvalidArgument (made with other options: says so).
    Status save(const std::string & path, const std::string & fingerprint, const std::string & state) const;
    Result<std::string> load(const std::string & path, const std::string & fingerprint);

private:
    Trainer() = default;
    Result<StepGraph *> graph(int worker, const BatchShape & shape, bool backward);
    Result<BatchLoss> run(const Batch & batch, float scale, float eviction_scale, bool backward);
    Status begin(int n_threads);
    double clip();
    Status update(float learning_rate);
    Status build_update();

    AdamW adamw_;
    std::unique_ptr<Parameters> owned_;
    StepModel model_;
    std::vector<ggml_backend_t> backends_;              // one thread each
    using Key = std::tuple<int, int, int, bool, bool>;  // worker, tokens, sequences, backward, bf16
    std::map<Key, std::unique_ptr<StepGraph>> graphs_;
    ggml_context * update_ctx_ = nullptr;
    ggml_backend_buffer * update_buffer_ = nullptr;
    ggml_cgraph * update_graph_ = nullptr;
    ggml_tensor * update_options_[2] = {};  // without and with weight decay
    int64_t n_steps_ = 0;
    bool bf16_ = false;
};

}  // namespace pith::train
