// step_graph.h - loss and gradients of one batch shape: ggml's graph and its backward, built once and run often. Stage: train.
// Threads: several graphs of the same parameters may run at once (each with its own back end) while nobody writes those.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pith/status.h"
#include "train/fast_ops.h"
#include "train/parameters.h"

struct ggml_gallocr;

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
    double weight_sum() const;
};

struct BatchLoss {
    double nll_sum = 0;  // sum of weight · nll
    double weight_sum = 0;
    std::vector<float> nll;    // [B·T]
    std::vector<uint8_t> hit;  // [B·T] the target was the best token
};

class StepGraph {
public:
    // bf16: products on the matrix unit where there is one (gemm_bf16.h). Errors: kOutOfMemory.
    static Result<std::unique_ptr<StepGraph>> make(Parameters & parameters, const BatchShape & shape, bool backward, bool bf16,
                                                   ggml_backend_t backend);
    ~StepGraph();

    // Runs the batch. With backward: computes scale · d(sum of weight · nll) / d(parameter), for add_gradients().
    // Errors: kInvalidArgument (another shape, a token outside the vocabulary), kInternal (ggml).
    Result<BatchLoss> run(const Batch & batch, float scale);

    // Adds the last run's gradients to every Parameter::gradient.
    void add_gradients();

    const BatchShape & shape() const { return shape_; }
    bool backward() const { return backward_; }
    // Processor seconds by operation and shape of one run, for measuring. REQUIRES: a batch was run before.
    std::vector<std::pair<std::string, double>> profile();

private:
    StepGraph() : ops_(&loss_) {}
    ggml_tensor * attention(ggml_context * ctx, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v);
    ggml_tensor * build_loss();
    Status build();

    Parameters * parameters_ = nullptr;
    BatchShape shape_;
    bool backward_ = false;
    ggml_backend_t backend_ = nullptr;
    ggml_context * ctx_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
    ggml_gallocr * allocator_ = nullptr;
    ggml_tensor * tokens_ = nullptr;
    ggml_tensor * positions_ = nullptr;
    std::vector<ggml_tensor *> gradients_;  // as Parameters::list()
    Loss loss_;
    FastOps ops_;
};

}  // namespace pith::train
