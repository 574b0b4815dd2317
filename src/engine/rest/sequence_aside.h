// sequence_aside.h - what a sequence holds, in files without names while others want its memory. Stage: engine.
//
// Entries, evidence, gates, recurrent states and logits go; tokens, positions, plan and counters stay. The files end with the
// object, and with the process; nobody else sees them.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "cache/resting_lanes.h"
#include "cache/spill_memory.h"
#include "engine/pass/live_session.h"
#include "pith/status.h"

namespace pith {

class SequenceAside {
public:
    // Takes it out of the session's sequence, which has no lanes then: all of it or, failing, nothing.
    // folder: empty: the one for temporary files. REQUIRES: the sequence has lanes, and no call is open.
    // Errors: kOutOfMemory, also of a folder that is full or not there: names it.
    static Result<SequenceAside> take(LiveSession & session, const std::string & folder);

    // Puts it back, to the bit: all of it or, failing, nothing. room_to_fork: others will go on from it, and so many cells come
    // behind its lanes; nullopt: nobody will. REQUIRES: of the session that it was taken out of, which is as it was then.
    Status put_back(LiveSession & session, std::optional<int64_t> room_to_fork) const;

private:
    int64_t capacity_ = 0;  // of the lanes
    RestingLanes lanes_;
    SpillMemory rest_;
    size_t rest_bytes_ = 0;
};

}  // namespace pith
