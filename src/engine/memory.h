// memory.h - how much of the free memory KV caches may take. Stage: engine.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cache/ragged_cache.h"
#include "model/model_file.h"

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

}  // namespace pith
