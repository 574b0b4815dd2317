// layer_form.h - what an architecture's name says of every layer; its keys say the rest (hparams.h). Stage: model.
// Graphs, the weight table and evidence ask these fields; nobody asks for an architecture's name.
#pragma once

namespace pith {

enum class RopeKind {
    kNeighbours,  // dimensions 2i and 2i + 1 turn together
    kHalves,      // dimensions i and i + n_rot / 2
};

// RMS norms of queries and keys, before they are rotated.
enum class QkNorm {
    kNone,
    kPerHead,  // each head by itself, with one weight [d] for all
};

enum class Experts {
    kNone,
    kLikeMixtral,  // where expert_count says so; as wide as feed_forward_length
    kAlways,       // expert_feed_forward_length wide
};

struct LayerForm {
    RopeKind rope = RopeKind::kNeighbours;
    QkNorm qk_norm = QkNorm::kNone;
    bool qkv_biases = false;  // must be there; in other architectures they may
    Experts experts = Experts::kNone;
};

}  // namespace pith
