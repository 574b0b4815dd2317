// room_there.h - what a prompt that is read layer by layer takes of its devices' memory beside its lanes, where there is
// enough: all its hidden states (pass/states_there.h), longer chunks, and a second whole layer (pass/layer_in_flight.h).
// Stage: schedule.
#pragma once

#include <cstdint>

#include "engine/pass/live_session.h"
#include "pith/status.h"

namespace pith {

struct RoomThere {
    bool for_states = false;
    int chunk = 0;            // of layers that are there (are_there())
    bool two_layers = false;  // whole beside each other, where layers are evicted as they are read
};

// Of a prompt of n tokens, once its plan is made. evicts_layers: each layer as soon as it is read, so that only one holds all.
// Errors: kIo: a device failed.   Cost: each device is asked for its free memory.
Result<RoomThere> room_there(const LiveSession & session, int64_t n, bool evicts_layers);

}  // namespace pith
