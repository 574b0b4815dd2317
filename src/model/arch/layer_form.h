// layer_form.h - what an architecture's name says of every layer; its keys say the rest (hparams.h). Stage: model.
// Graphs, the weight table and evidence ask these fields; nobody asks for an architecture's name.
#pragma once

namespace pith {

enum class RopeKind {
    kNeighbours,  // dimensions 2i and 2i + 1 turn together
    kHalves,      // dimensions i and i + n_rot / 2
    kNone,        // nothing turns, whatever keys say
};

enum class NormKind {
    kRms,
    kLayer,  // less its mean, divided by its deviation; a weight, no bias
};

// What a feed-forward makes of its gate and its up.
enum class Activation {
    kSilu,         // silu(gate) · up
    kGelu,         // gelu(gate) · up
    kClamped,      // gate · sigmoid(1.702 · gate) · (up + 1), gate at most 7 and up within ±7
    kSquaredRelu,  // max(up, 0)²: there is no gate
};

// RMS norms of queries and keys.
enum class QkNorm {
    kNone,
    kPerHead,         // each head by itself, with one weight [d] for all
    kMayBePerHead,    // the same where the file has the weights
    kPerHeadRotated,  // the same, after RoPE
    kPlainRotated,    // each head by itself, after RoPE, without a weight; in layers that rotate
    kWhole,           // all heads together, with a weight [d·H] or [d·K]
};

enum class Experts {
    kNone,
    kLikeMixtral,  // where expert_count says so; as wide as feed_forward_length
    kAlways,       // in every layer behind leading_dense_block_count; expert_feed_forward_length wide
    kWhereSaid,    // the same where expert_count says so
};

// What the router makes of its logits: the experts' weights, before the best are made to sum to 1. kSoftmaxOfBest: nothing
// before the best are chosen, and a softmax over those.
enum class Router { kSoftmax, kSigmoid, kSoftmaxOfBest };

// What a layer without attention is made of: it reads a state of fixed size, and leaves one to the next token.
enum class Recurrent {
    kNone,
    kShortConv,  // a short convolution of what a gate lets in, and a gate behind it
    kDeltaNet,   // gated delta rule: a memory that decays, and in which a key's value is replaced by degrees
    kMamba2,     // a memory that decays, and to which every token adds
};

struct LayerForm {
    // Norms by their tensors' names, without "blk.N." and ".weight"; null: none.
    NormKind norm = NormKind::kRms;
    const char * attn_norm = "attn_norm";      // of the attention's input
    const char * attn_post_norm = nullptr;     // of its output, before it is added to the hidden state
    const char * ffn_norm = "ffn_norm";        // of the feed-forward's input
    const char * ffn_post_norm = nullptr;      // of its output
    const char * output_norm = "output_norm";  // behind the last layer; without "blk.N."
    float norm_eps = 0.0F;                     // of files that do not say; 0: they must

    RopeKind rope = RopeKind::kNeighbours;
    const char * rope_scaling = "linear";  // of files that give a factor and not its kind
    QkNorm qk_norm = QkNorm::kNone;
    bool qkv_biases = false;    // must be there; in other architectures they may
    bool unlike_heads = false;  // layers with a window may have heads of another number and size
    // Each value's head is normed by itself, without a weight. In layers without a window a file may have no attn_v: values are
    // then the keys' products.
    bool value_norm = false;
    bool sinks = false;     // every query head has a key that all its queries see, of value 0
    bool parallel = false;  // the feed-forward reads the attention's input, and both are added to the hidden state at once
    Activation activation = Activation::kSilu;
    bool gate_in_up = false;  // the tensor ffn_up holds the gate's rows, then its own
    bool has_gate() const { return activation != Activation::kSquaredRelu; }

    Recurrent recurrent = Recurrent::kNone;  // of layers that are (LayerHparams::recurrent)
    bool one_part_a_layer = false;           // a layer is a state, attention or a feed-forward: no two of them

    // Of a delta net: the value heads that share a key head are neighbours, not as many heads apart as there are key heads.
    bool neighbours_share_keys = false;
    bool output_gate = false;  // what attention gives is multiplied by a sigmoid of its own; attn_q holds that gate's rows, too

    Experts experts = Experts::kNone;
    Router router = Router::kSoftmax;
    bool router_bias = false;         // added for the choice of the experts, not to their weights
    bool shared_expert_gate = false;  // the expert that every token goes through counts by a sigmoid of the token's
    bool expert_biases = false;       // of the router's product and of the experts'
    bool weighs_inputs = false;       // an expert's weight multiplies what goes in, not what comes out
    // A layer's experts stand beside its dense feed-forward, both with norms of their own; the router reads the hidden state.
    bool experts_beside_dense = false;
    bool layer_scale = false;  // what a layer leaves is multiplied by a number, where the file has one
};

}  // namespace pith
