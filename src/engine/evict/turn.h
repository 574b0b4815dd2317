// turn.h - positions past the length that a model was trained on: kept keys turn to places side by side. Stage: evict.
//
// A token's position counts all that came before it; where it stands for RoPE is what the model sees. When the next token would
// stand at the trained length, every lane's keys turn to places that end at one common place, each directly behind the one
// before, so that the next token stands behind the longest lane: as StreamingLLM has it, lane by lane. Positions stay in the
// books: grids, windows, protected tokens, reports and files go by them.
//
// It comes at positions that depend on the tokens and the lanes alone: however a text is cut into calls, its lanes are the
// same.
//
// Source:  Efficient Streaming Language Models with Attention Sinks. Guangxuan Xiao, Yuandong Tian, Beidi Chen, Song Han, Mike
//          Lewis. ICLR 2024. arXiv:2309.17453, Section 3.2 (positions in the cache, not in the text).
// Differs: there keys lie in the cache before RoPE, and every step rotates all of them; here, once in so many tokens as the
//          turn has made room for.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/pass/live_session.h"
#include "pith/status.h"

namespace pith {

// Tokens that may be read before keys are to turn, 0 or less once they are; nullopt: they never do.
std::optional<int64_t> room_before_turn(const LiveSession & session);

// What a lane may keep at an eviction behind which no other comes before keys turn, so that they can; 0: as it comes.
int64_t most_of_lane(const LiveSession & session);

// Turns them where they are to, and the lanes leave at least a sixty-fourth of the trained length free; nothing otherwise:
// later tokens then stand past it. is_last: nothing that follows in the call can fail. Cost: reads and rounds every key once;
// room for the rows of K once more. Errors: kOutOfMemory, kIo (a device).
Status turn_if_due(LiveSession & session, bool is_last);

}  // namespace pith
