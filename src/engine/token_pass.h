// token_pass.h - a session's tokens through layers and head, under what its gates say. Stage: model graph → attention →
// evidence → logits.
//
// Errors of all: kOutOfMemory, kInternal, kCancelled; the lanes may then hold new entries already, and whoever opened the
// transaction takes it back.
#pragma once

#include <cstdint>
#include <span>

#include "engine/live_session.h"

namespace pith {

// New tokens of the session in front of a layer.
struct LayerRows {
    std::span<const int32_t> tokens;  // [n]
    std::span<float> states;          // [n][D] read in front of all layers but the first; overwritten with the result
    int32_t first_position = 0;
    int n_out = 0;      // so many of the newest go on: they are then in front
    int n_to_come = 0;  // tokens that the layer sees after these before its evidence is asked for anything
};
Status run_layer(LiveSession & session, int layer, const LayerRows & rows);

// Tokens through all layers, into the lanes. session.hidden then holds the last layer's states: all, or the newest in front.
Status run_layers(LiveSession & session, std::span<const int32_t> tokens, bool all_states);

// The same, and logits. is_last: of the call. Only its logits will be asked for, where nobody is shown all.
Status run_chunk(LiveSession & session, std::span<const int32_t> tokens, const RunHooks & hooks, bool is_last);

// states [n][D] hold the last layer's output: all rows when every position's logits are wanted, else the newest in front.
Status emit_logits(LiveSession & session, std::span<const float> states, int n, int64_t first_position, const RunHooks & hooks);

}  // namespace pith
