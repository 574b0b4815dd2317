// room_there.h - what a prompt that is read layer by layer takes of its devices' memory beside its lanes, where there is
// enough: all its hidden states (pass/states_there.h), and longer chunks. Stage: schedule.
#pragma once

#include <cstdint>

#include "engine/pass/live_session.h"
#include "pith/status.h"

namespace pith {

struct RoomThere {
    bool for_states = false;
    int chunk = 0;  // of layers that are there (are_there())
};

// Tokens of a chunk there, where the session leaves them to us (SessionOptions::chunk is the default): a device is asked less
// often, and reads weights less often. Behind a chunk nothing is evicted, so what is kept does not depend on it.
inline constexpr int kChunkThere = 2048;

// Of a prompt of n tokens, once its plan is made. evicts_layers: each layer as soon as it is read, so that only one holds all.
// Errors: kIo: a device failed.   Cost: each device is asked for its free memory.
Result<RoomThere> room_there(const LiveSession & session, int64_t n, bool evicts_layers);

}  // namespace pith
