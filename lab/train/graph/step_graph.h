// step_graph.h - loss and gradients of one batch shape: ggml's graph and its backward, built once and run often. Stage: train.
// Threads: several graphs of the same parameters may run at once (each with its own back end) while nobody writes those.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pith/status.h"
#include "train/graph/fast_ops.h"
#include "train/graph/gate_step.h"
#include "train/graph/parameter_set.h"
#include "train/graph/step_model.h"

struct ggml_gallocr;

typedef struct ggml_backend * ggml_backend_t;

namespace pith::train {

// B sequences of T tokens each, one after the other.
struct BatchShape {
    int n_tokens = 0;     // T
    int n_sequences = 0;  // B
    int size() const { return n_tokens * n_sequences; }
};

struct Batch {
    BatchShape shape;
    std::vector<int32_t> tokens;   // [B·T]
    std::vector<int32_t> targets;  // [B·T], the token that follows
    std::vector<float> weights;    // [B·T] of the loss at each target, 0: none
    // With gates: the first tokens of each sequence that they read and flag [B]; empty: all.
    std::vector<int> n_gated;
    double weight_sum() const;
};

// What gates did to a batch.
struct GateCounts {
    std::vector<double> kept;         // flags that are 1, of each layer that has a gate
    std::vector<double> probability;  // sum of the retention probabilities, likewise
    double n_flags = 0;               // of one layer
    double eviction_loss = 0;         // sum over sequences and layers of ReLU(mean - beta)

    void add(const GateCounts & other);
};

struct BatchLoss {
    double nll_sum = 0;  // sum of weight · nll
    double weight_sum = 0;
    std::vector<float> nll;    // [B·T]
    std::vector<uint8_t> hit;  // [B·T] the target was the best token
    GateCounts gates;          // empty without gates
};

class StepGraph {
public:
    // bf16: products in bf16 where the processor has some (gemm_bf16.h). Errors: kOutOfMemory.
    // REQUIRES: check_trainable(model).
    static Result<std::unique_ptr<StepGraph>> make(const StepModel & model, const BatchShape & shape, bool backward, bool bf16,
                                                   ggml_backend_t backend);
    ~StepGraph();

    // Runs the batch. With backward: computes the gradient of scale · sum of weight · nll + eviction_scale · eviction loss
    // (GateCounts) with respect to every parameter, for add_gradients().
    // Errors: kInvalidArgument (another shape, a token outside the vocabulary), kOutOfMemory, kInternal (ggml).
    Result<BatchLoss> run(const Batch & batch, float scale, float eviction_scale = 0.0F);

    // Adds the last run's gradients to every Parameter::gradient.
    void add_gradients();

    const BatchShape & shape() const { return shape_; }
    bool backward() const { return backward_; }
    size_t size_bytes() const;  // of the graph's activations
    // Processor seconds by operation and shape of one run, for measuring. REQUIRES: a batch was run before.
    std::vector<std::pair<std::string, double>> profile();

private:
    struct AttentionForm {
        ggml_tensor * flags = nullptr;  // [K, n]
        int n_recent = 1;
        const GateStep * global = nullptr;  // of the gate's own attention
        float scale = 1.0F;
    };
    StepGraph() : ops_(&loss_) {}
    ggml_tensor * attention(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v, const AttentionForm & form);
    ggml_tensor * gate(int layer, ggml_tensor * x);
    ggml_tensor * build_loss();
    Status build();
    Result<BatchLoss> run_open(const Batch & batch, float scale, float eviction_scale);
    Status no_memory() const;
    Status set_gated(const Batch & batch, float eviction_scale);
    GateCounts gate_counts() const;

    StepModel model_;
    BatchShape shape_;
    bool backward_ = false;
    ggml_backend_t backend_ = nullptr;
    std::unique_ptr<uint8_t[]> meta_;  // tensor and graph structs
    ggml_context * ctx_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
    ggml_gallocr * allocator_ = nullptr;
    ggml_tensor * tokens_ = nullptr;
    ggml_tensor * positions_ = nullptr;
    std::vector<ggml_tensor *> gradients_;  // as Parameters::list()
    Loss loss_;
    GateStep gate_step_;
    FastOps ops_;
};

// Ok when every layer can be differentiated. Errors: kUnsupported (experts, a weight that cannot be dequantised: says which).
Status check_trainable(const StepModel & model);

}  // namespace pith::train
