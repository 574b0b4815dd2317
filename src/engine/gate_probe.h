// gate_probe.h - what a session's gates said of the tokens of its prompts. Stage: engine.
// For inspection. Threads: one at a time, as the session.
#pragma once

#include <span>
#include <vector>

#include "pith/session.h"

namespace pith {

struct LiveSession;

struct GateLayerView {
    int layer = 0;
    int n_tokens = 0;
    int n_kv_heads = 0;
    std::vector<float> probability;  // [token][KV head], sigmoid(logit + gamma)
};

// The session must outlive the probe, and must not be moved while it is watched.
class GateProbe {
public:
    explicit GateProbe(Session & session);
    ~GateProbe();
    GateProbe(const GateProbe &) = delete;
    GateProbe & operator=(const GateProbe &) = delete;

    // From now on gates run whatever the policy is, and what they say is kept. attention_layer: keep this layer's attention map
    // as well, tokens² floats a head; -1: none.
    // REQUIRES: nothing has been prefilled yet.
    // Errors: kInvalidArgument: the model has no gates, or no gate that attends in that layer.
    Status watch(int attention_layer = -1);

    // One for each layer that has a gate, ascending.
    const std::vector<GateLayerView> & layers() const { return layers_; }
    // [gate head][query][key] of the watched layer over the tokens its gate was asked about: softmax rows; keys a query does
    // not see are 0. Empty: nothing was watched.
    std::vector<float> attention_map() const;

private:
    struct Block {
        int head = 0;
        int first_query = 0;
        int n_queries = 0;
        int n_keys = 0;
        std::vector<float> rows;
    };

    LiveSession & session_;
    std::vector<GateLayerView> layers_;
    std::vector<Block> blocks_;
};

}  // namespace pith
