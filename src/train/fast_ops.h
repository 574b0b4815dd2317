// fast_ops.h - exchanges slow nodes of a training graph for the trainer's own CPU code. Stage: train.
//
// ggml builds and differentiates the graph; then its products, its causal attention and the loss become ggml custom
// operations: ggml 0.27 runs OUT_PROD (the backward of a product) far below the speed of the forward, keeps the whole
// matrix of attention's probabilities in memory, and knows only an unweighted cross entropy over dense labels.
//
// Exchanged: MUL_MAT, OUT_PROD (any strides, batch broadcast), attention as a whole (attention_ops.h), REPEAT_BACK,
//            SILU_BACK, CROSS_ENTROPY_LOSS and CROSS_ENTROPY_LOSS_BACK (weighted, see Loss).
// REQUIRES: all tensors f32; every SOFT_MAX belongs to an attention that was added.
// Threads:  one graph at a time.
#pragma once

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

class FastOps {
public:
    explicit FastOps(Loss * loss) : loss_(loss) {}
    // Products on the processor's matrix unit, where it has one (gemm_bf16.h).
    void use_bf16(bool on) { bf16_ = on; }
    bool bf16() const { return bf16_; }
    FastOps(const FastOps &) = delete;
    FastOps & operator=(const FastOps &) = delete;

    // Causal self-attention as the graph has it: scores = k·q, p = softmax(scores), out = vt·p.
    struct Attention {
        ggml_tensor * q;    // [d, T, heads]
        ggml_tensor * k;    // [d, T, heads]
        ggml_tensor * vt;   // [T, d, heads]
        ggml_tensor * p;    // [T, T, heads]
        ggml_tensor * out;  // [d, T, heads]
    };
    void add_attention(const Attention & attention);

    // Exchanges all nodes of `graph`; new tensors come from ctx.
    void exchange(ggml_context * ctx, ggml_cgraph * graph);

    struct Node {
        FastOps * owner;
        bool outer_product = false;  // OUT_PROD
        float scale = 1.0F;          // of attention
    };
    Loss * loss() const { return loss_; }

private:
    Node * new_node();
    void exchange_attention(ggml_context * ctx, ggml_cgraph * graph, const Attention & attention);

    Loss * loss_;
    bool bf16_ = false;
    std::deque<Node> nodes_;
    std::vector<Attention> attentions_;
};

}  // namespace pith::train
