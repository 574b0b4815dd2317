// output_norms.h - how far an entry's value moves the layer's output: |v·W_O^g|. Stage: attention → evidence.
//
// The second norm goes through the factor of output_factors.h; the first has no such shortcut: it is a product with W_O itself,
// reduced as it is formed (on other back ends than the CPU formed tile by tile).   Any K/V type.
// Cost per entry and query head: O(dv²) for L2, O(dv·D) for L1; scratch of one tile, and a packed copy of what is multiplied.
#pragma once

#include <span>

#include "attention/graph_runner.h"
#include "cache/ragged_cache.h"
#include "core/ragged.h"

namespace pith {

// factor: as OutputFactors::factor() gives it. out [H].
Status output_l2_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> factor,
                       Ragged<float> & out);

// projection [D][H·dv]. out [H].
Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> projection,
                       Ragged<float> & out);

}  // namespace pith
