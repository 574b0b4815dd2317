// gate_config.h - what an attention gate is: its form, its threshold, what it may see. Stage: gate.
// Before layer l a gate reads the layer's normalised input X [D, n] and gives one logit per token and KV head:
//   retention probability = sigmoid(logit + gamma), kept when it is > tau.
// Query i then sees key j iff j <= i and (key j is kept or i - j < n_recent): n_recent 1 is the diagonal, which always stays.
// Pure C++: no ggml, no I/O.
// Paper: In-context KV-Cache Eviction for LLMs via Attention-Gate (Zeng et al., 2024), sections 3.3, 3.4 and 4.4.
// Differs: under grouped-query attention a flag belongs to a KV head, since its entry serves the whole group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/arch/hparams.h"
#include "pith/status.h"

namespace pith {

enum class GateKind {
    kAttention,  // a small attention over the tokens, then a projection
    kLinear,     // the projection alone: each token by itself
    kMlp,        // one hidden layer with GELU, then the projection: each token by itself; of gates that rank
};
enum class GateSource {
    kOwn,       // X of the layer whose entries it evicts
    kPrevious,  // X of the layer before: gate and attention need not wait for each other
};
// What the answers are for.
enum class GatePurpose {
    kThreshold,  // trained to evict: what is not above tau goes
    kRank,       // says how much an entry matters; a budget decides how many stay, and tau means nothing
};

struct GateConfig {
    GateKind kind = GateKind::kAttention;
    GatePurpose purpose = GatePurpose::kThreshold;
    GateSource source = GateSource::kOwn;
    int n_hidden = 512;   // of an MLP
    int n_heads = 4;      // of the gate's attention
    int head_dim = 128;   // of the gate's attention
    bool causal = false;  // false: a token's logit depends on the whole prompt
    int n_recent = 1;     // keys a query sees whatever their flags, its own included
    int first_layer = 0;  // layers before it evict nothing; at least 1 for kPrevious
    float tau = 0.5F;     // threshold, in (0, 1)
    float gamma = 2.0F;   // added to the logit, >= 0

    bool has_gate(int layer) const { return layer >= first_layer; }  // of a layer that policies govern; others have none
    // The layer whose input the gate of `layer` reads.
    int input_layer(int layer) const { return source == GateSource::kOwn ? layer : layer - 1; }
    // A gate whose logit needs nothing that comes later works in chunks.
    bool works_in_chunks() const { return causal || kind != GateKind::kAttention; }
};

float gate_probability(float logit, const GateConfig & config);
bool gate_keeps(float logit, const GateConfig & config);

// Layers that have a gate, ascending: those that policies govern, from the first on. Of a gates' file read alone: all from
// there.
std::vector<int> layers_with_gate(const GateConfig & config, const Hparams & hparams);

// Errors: kInvalidArgument: names the field, its value and what is possible. kUnsupported: layers that read another's keys.
Status check(const GateConfig & config, const Hparams & hparams);

// "attention", "linear", "mlp"; "own", "previous"; "threshold", "rank". Errors: kInvalidArgument (names the words there are).
std::string_view to_string(GateKind kind);
std::string_view to_string(GateSource source);
std::string_view to_string(GatePurpose purpose);
Result<GateKind> parse_gate_kind(std::string_view text);
Result<GateSource> parse_gate_source(std::string_view text);
Result<GatePurpose> parse_gate_purpose(std::string_view text);

}  // namespace pith
