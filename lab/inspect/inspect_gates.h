// inspect_gates.h - what a model's gates keep of a text: lane by lane, token by token, and what one layer's gate looks at.
// Stage: inspect.
//
// One prefill under policy `gated`, as `pith run --gate` makes it: a layer's gate reads what the layers below computed with
// their own entries already evicted.
// Paper: Attention-Gate (Zeng et al., 2024), Figure 1 (what is kept), Figure 3 (the gates' attention).
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gate/gate_config.h"
#include "pith/model.h"
#include "pith/session.h"

namespace pith {

struct InspectGatesOptions {
    SessionOptions session;    // threads, types, chunk; the policy is `gated`
    int attention_layer = -1;  // whose gate's attention map is wanted, by the model's number; -1: none
    RunHooks hooks;
};

struct GateInspection {
    GateConfig config;
    std::vector<int32_t> tokens;
    std::vector<int> layer_numbers;  // [layer]: which of the model's it is, ascending: those that policies govern
    int n_layers = 0;                // as many; those without a gate keep everything
    int n_kv_heads = 0;
    std::vector<float> probability;  // [layer][token][kv_head]; 1 where the layer has no gate
    int attention_layer = -1;
    std::vector<float> attention;  // [gate head][query][key] of that layer, rows that sum to 1; empty: none

    int n_tokens() const { return static_cast<int>(tokens.size()); }
    bool has_gate(int layer) const { return config.has_gate(layer_numbers[static_cast<size_t>(layer)]); }
    float probability_at(int layer, int token, int kv_head) const {
        return probability[(static_cast<size_t>(layer) * tokens.size() + static_cast<size_t>(token)) *
                               static_cast<size_t>(n_kv_heads) +
                           static_cast<size_t>(kv_head)];
    }
    bool keeps(int layer, int token, int kv_head) const {
        return !has_gate(layer) || probability_at(layer, token, kv_head) > config.tau;
    }
    double kept_share(int layer, int kv_head) const;  // of a lane
    double mean_probability(int layer, int kv_head) const;
    double token_share(int token) const;  // of the lanes that keep it, of all layers here
    double retention() const;             // of all lanes: means over what has a gate
};

// A token's row of an attention map holds as many numbers as there are tokens: longer texts are refused.
inline constexpr int kMostMappedTokens = 2048;

// Errors: kInvalidArgument (no gates, no tokens; attention_layer without a gate, of a linear gate, or too many tokens for it),
//         those of sessions.
Result<GateInspection> inspect_gates(const Model & model, std::span<const int32_t> tokens, const InspectGatesOptions & options);

}  // namespace pith
