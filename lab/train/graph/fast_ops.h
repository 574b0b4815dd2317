// fast_ops.h - exchanges slow nodes of a training graph for the trainer's own CPU code. Stage: train.
//
// ggml builds and differentiates the graph; then its products, its causal attention and the loss become ggml custom
// operations: ggml 0.27 runs OUT_PROD (the backward of a product) far below the speed of the forward, keeps the whole
// matrix of attention's probabilities in memory, and knows only an unweighted cross entropy over dense labels.
//
// Exchanged: MUL_MAT, OUT_PROD (any strides, batch broadcast), attention as a whole (attention_ops.h), REPEAT_BACK,
//            SILU_BACK, CROSS_ENTROPY_LOSS and CROSS_ENTROPY_LOSS_BACK (weighted, see Loss); a gate's threshold (gate_step.h).
// REQUIRES: all tensors f32 but for the first operand of a product, a frozen weight of any type that can be dequantised;
//           every SOFT_MAX belongs to an attention that was added.
// Threads:  one graph at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

struct ggml_context;
struct ggml_cgraph;
struct ggml_tensor;

namespace pith::train {

// The weighted loss of a batch: sum over rows of weight · nll / sum of weights, for targets -1 and weight 0 nothing.
// Written by the graph: nll and best of each row. The gradient with respect to the logits is (softmax - onehot) · weight ·
// scale.
struct Loss {
    std::vector<int32_t> targets;  // [n]
    std::vector<float> weights;    // [n]
    float scale = 1.0F;            // 1 / sum of weights over all accumulated batches
    std::vector<float> nll;        // [n], out: -log softmax(logits)[target], 0 where the weight is 0
    std::vector<uint8_t> hit;      // [n], out: the target is the best logit
};

struct GateStep;

class FastOps {
public:
    explicit FastOps(Loss * loss) : loss_(loss) {}
    // Products in bf16, where the processor has some (gemm_bf16.h).
    void use_bf16(bool on) { bf16_ = on; }
    bool bf16() const { return bf16_; }
    FastOps(const FastOps &) = delete;
    FastOps & operator=(const FastOps &) = delete;

    // Self-attention as the graph has it: scores = k·q (+ flags), p = softmax(scores), out = vt·p.
    struct Attention {
        ggml_tensor * q;                // [d, T, heads·B]
        ggml_tensor * k;                // [d, T, heads·B]
        ggml_tensor * vt;               // [T, d, heads·B]
        ggml_tensor * p;                // [T, T, heads·B]
        ggml_tensor * out;              // [d, T, heads·B]
        ggml_tensor * flags = nullptr;  // [T, 1, heads·B], 1 or 0, added to the scores only to be differentiated; null: none
        int n_recent = 1;               // keys seen whatever their flags
        // Not causal: a query sees the first n_gated[b] tokens of its sequence, and these alone have an output (else 0).
        const GateStep * global = nullptr;
    };
    void add_attention(const Attention & attention);

    // A gate's threshold, in the graph a SILU of the logits [K, T·B]: exchanged for flags and their straight-through gradient.
    void add_gate(ggml_tensor * flags, GateStep * step, int layer);

    // A frozen output matrix: logits = weight · x and their loss become one operation (frozen_head.h).
    void add_frozen_head(ggml_tensor * logits, ggml_tensor * loss);

    // Exchanges all nodes of `graph`; new tensors come from ctx.
    void exchange(ggml_context * ctx, ggml_cgraph * graph);

    struct Node {
        FastOps * owner;
        bool outer_product = false;             // OUT_PROD
        float scale = 1.0F;                     // of attention
        const Attention * attention = nullptr;  // of attention
        bool wants_inputs = false;              // of attention's backward: gradients of q, k and vt
        GateStep * step = nullptr;              // of a gate
        int layer = 0;                          // of a gate
    };
    Loss * loss() const { return loss_; }
    // A run that an operation found no memory in: what it left is nothing.
    void begin_run() { failed_ = false; }
    void fail() { failed_ = true; }
    bool failed() const { return failed_; }

private:
    struct Gate {
        ggml_tensor * flags;
        GateStep * step;
        int layer;
    };
    Node * new_node();
    void exchange_attention(ggml_context * ctx, ggml_cgraph * graph, const Attention & attention);
    void exchange_head(ggml_context * ctx, ggml_cgraph * graph);
    void exchange_gate(ggml_context * ctx, ggml_cgraph * graph, const Gate & gate);

    Loss * loss_;
    bool bf16_ = false;
    std::atomic<bool> failed_{false};
    std::deque<Node> nodes_;
    std::deque<Attention> attentions_;
    std::vector<Gate> gates_;
    ggml_tensor * frozen_logits_ = nullptr;
    ggml_tensor * frozen_loss_ = nullptr;
};

}  // namespace pith::train
