// saved_gates.h - what gates left of a session, in a section of a file. Stage: engine.
#pragma once

#include <cstdint>

#include "engine/sequence/gate_state.h"
#include "pith/status.h"

namespace pith {

class ByteReader;
class ByteWriter;
struct LiveSession;

void write_gates(const GateState & gates, ByteWriter & to);
// Of the session's own gates, or none. Errors: kBadFile.
Result<GateState> read_gates_of(const LiveSession & session, ByteReader & from, int64_t n_tokens);

}  // namespace pith
