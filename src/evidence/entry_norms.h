// entry_norms.h - one number per entry from K or V as they lie in the cache. Stage: attention → evidence.
// On the CPU read as they are stored (cpu_entries.h); elsewhere expanded to f32 on the back end, tile by tile.
// Cost: O(entries · d), scratch of one tile.
#pragma once

#include "attention/cpu/cpu_entries.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"

namespace pith {

// |v|₁ or |v|₂ of every entry of (seq, layer): [K].
Status value_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, EntryNorm norm, Ragged<float> & out);

// cos(k_j, mean over the lane of k/|k|₂): [K]. A key of zeros, and a mean of zeros, give 0.
Status key_cosines(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, Ragged<float> & out);

}  // namespace pith
