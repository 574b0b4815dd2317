// room_there.cpp - what is free, less what the lanes will take.
#include "engine/read/room_there.h"

#include <algorithm>
#include <map>
#include <memory>

#include "engine/settle/memory.h"

namespace pith {
namespace {

// What an engine has promised to sequences that have not taken it yet is free, too: of that little is taken.
constexpr double kOfAnEngine = 1.0 / 16;

struct Lanes {
    double of_all = 0;  // bytes of an entry in each
    double largest = 0;
};

}  // namespace

Result<RoomThere> room_there(const LiveSession & session, int64_t n, bool evicts_layers) {
    const RunPlan & plan = *session.seq.plan;
    RoomThere room{false, plan.chunk, false};
    std::map<std::shared_ptr<LaneDevice>, Lanes> devices;
    for (int l = 0; l < session.n_layers(); ++l) {
        if (session.layout.device(l) == nullptr) { continue; }
        const LaneRows rows = session.layout.rows(l);
        const double bytes = static_cast<double>(rows.bytes()) * rows.n_lanes;
        Lanes & lanes = devices[session.layout.device(l)];
        lanes.of_all += bytes;
        lanes.largest = std::max(lanes.largest, bytes);
    }
    if (devices.empty()) { return room; }
    room.for_states = room.two_layers = true;
    room.chunk = chunk_there(plan.chunk);
    const auto n_all = static_cast<double>(n);
    const auto n_kept = static_cast<double>(evicts_layers ? std::min(plan.budget_at(n), n) : n);
    const double states = n_all * session.file->hparams().n_embd * sizeof(float);
    for (const auto & [device, lanes] : devices) {
        PITH_ASSIGN_OR_RETURN(const size_t free, device->free_bytes());
        double left = kUsableMemory * static_cast<double>(free) - n_kept * lanes.of_all - 2 * n_all * lanes.largest;
        if (session.given_plan) { left = std::min(left, kOfAnEngine * static_cast<double>(free)); }
        left -= chunk_bytes(session, plan.chunk);
        room.for_states = room.for_states && states <= left;
        // Masks: a number of 2 bytes for each query and entry, and the copy that they are made of.
        const double longer = chunk_bytes(session, room.chunk) - chunk_bytes(session, plan.chunk) + 4.0 * room.chunk * n_all;
        if (longer > left - states) { room.chunk = plan.chunk; }
        room.two_layers = room.two_layers && n_all * lanes.largest <= left - states - std::max(longer, 0.0);
    }
    return room;
}

}  // namespace pith
