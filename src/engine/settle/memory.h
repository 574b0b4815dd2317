// memory.h - what a session, or an engine, may take of the memory and of the addresses that are left. Stage: engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cache/ragged_cache.h"
#include "engine/parts/session_parts.h"
#include "model/model_file.h"
#include "plan/run_plan.h"

namespace pith {

// Bytes of the weights that are used in place, from the mapped file. Until they are first read, the system counts their memory
// as free; so whoever divides up the free memory must take them off first.
inline size_t mapped_bytes(const ModelFile & file) {
    const size_t on_devices = file.placement() == nullptr ? 0 : file.placement()->weight_bytes();
    return file.weight_bytes() - std::min(file.weight_bytes(), file.resident_copies_bytes() + on_devices);
}

// How many bytes all lanes together may take. Lanes lie in this machine's memory, on devices, or both; whichever of these is
// full first sets the limit. beside: bytes that must stay free in each. A result below 1 means that there is no room.
// Errors: kUnsupported when a device, or this machine, does not say how much memory is free (the message names it).
Result<double> memory_for_lanes(const ModelFile & file, const CacheLayout & layout, double beside);

// Of a chunk: the widest intermediates of a layer that stand beside each other, and two rows of logits.
double chunk_bytes(const SessionParts & parts, int n_tokens);
inline double chunk_bytes(const SessionParts & parts) {
    return chunk_bytes(parts, parts.options.chunk);
}
// Tokens of a chunk of layers that are on devices, lanes included, where the session leaves them to us (`chunk` is the
// default): a device is asked less often, and reads weights less often. Behind a chunk of a prompt that is read in one shot
// nothing is evicted, so what is kept does not depend on it.
inline constexpr int kChunkThere = 2048;
constexpr int chunk_there(int chunk) {
    return chunk == kDefaultChunk ? std::max(chunk, kChunkThere) : chunk;
}
// The budget `auto`: what is left, less a tenth, and less what a chunk's activations take, on devices one of
// chunk_there() where there is room for that; so many snapshots are left room for,
// each a copy of what an eviction moves.   Errors: kBudget: nothing is left; kUnsupported.
Result<Budget> memory_budget(const SessionParts & parts, int n_snapshots);
// Cells of a lane, for n_all tokens. Addresses are reserved ahead of use, several times the mean, since lanes grow unevenly;
// where they are limited, at once and as many as there are, because growing later would want the old and the new ones together.
// Errors: kOutOfMemory: there are fewer addresses than are needed at once.
Result<int64_t> lane_capacity(const SessionParts & parts, const RunPlan & plan, int64_t n_all);

}  // namespace pith
