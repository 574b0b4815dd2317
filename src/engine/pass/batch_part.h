// batch_part.h - consecutive rows of a pass that belong to one sequence. Stage: engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attention/cpu/lane_batch.h"
#include "cache/ragged_cache.h"
#include "engine/sequence/recurrent_states.h"
#include "evidence/evidence_state.h"
#include "gate/gate_file.h"

namespace pith {

struct AheadRow;

struct BatchPart {
    RaggedCache * cache = nullptr;
    EvidenceState * evidence = nullptr;
    int seq = 0;  // of the cache
    int n = 0;    // rows
    int32_t first_position = 0;
    int n_to_come = 0;                   // tokens that the layer sees after these before `evidence` is asked for anything
    RecurrentStates * states = nullptr;  // of the sequence's recurrent layers; may be null where the model has none
    // Says, as part of the layer, how much each row's entries matter (a gate that ranks); `evidence` is told. null: nothing.
    const Gate * ranking = nullptr;
    // Rows that run ahead of their tokens are parts of their own, behind that of the token that is fed: a part sees all of its
    // lanes but so many entries at their ends.
    int n_behind = 0;
    int n_together = 1;                        // parts of these lanes
    AheadRow * ahead = nullptr;                // what evidence would be told of the row is put down there; null: it is told
    const HiddenKeys * hidden_keys = nullptr;  // of the layer at hand, those of the new tokens included; nullptr: none
};

// Of all parts.
int n_rows(std::span<const BatchPart> parts);

// The parts as the attention sees them. sums: whether it adds to the evidence's running sums itself, where these are wanted.
LaneBatch lane_batch(std::span<const BatchPart> parts, bool sums);

}  // namespace pith
