// memory.h - what of the memory that is left KV caches may take. Stage: engine.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cache/ragged_cache.h"
#include "model/model_file.h"

namespace pith {

inline constexpr double kUsableMemory = 0.9;  // a tenth stays for what is not counted

// Weights that are read where the file is mapped: the system does not count them as taken, and they will be.
inline size_t mapped_bytes(const ModelFile & file) {
    const size_t on_devices = file.placement() == nullptr ? 0 : file.placement()->weight_bytes();
    return file.weight_bytes() - std::min(file.weight_bytes(), file.resident_copies_bytes() + on_devices);
}

// Of the memory that is left where lanes lie, on devices and here, what all of them may take: the first that is full bounds the
// others. beside: bytes that each must leave. Below 1: nothing. Errors: kUnsupported: one does not say what is left (names it).
Result<double> memory_for_lanes(const ModelFile & file, const CacheLayout & layout, double beside);

}  // namespace pith
