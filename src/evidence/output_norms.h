// output_norms.h - how far an entry's value moves the layer's output: |v·W_O^g|. Stage: attention → evidence.
//
// The second norm goes through the factor of output_factors.h; the first has no such shortcut: it is a product with W_O itself,
// reduced as it is formed (on other back ends than the CPU formed tile by tile). By signed bytes (cpu_byte_products.h) where
// the processor multiplies them: some 2e-4 of the norm off, and three (AVX-512 VNNI) to eight (AMX) times as fast as in f32.
// Any K/V type. On the CPU a norm is the same bits whatever else is computed beside it.
// Cost per entry and query head: O(dv²) for L2, O(dv·D) for L1; scratch of one tile, and a packed copy of what is multiplied.
#pragma once

#include <span>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"
#include "evidence/byte_projection.h"

namespace pith {

// factor: as OutputFactors::factor() gives it. out [H].
Status output_l2_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> factor,
                       Ragged<float> & out);

// projection [D][H·dv], in f32. out [H].
// begin [K]: where it is not empty, `out` is as long as the lanes, and only entries from begin[h] of lane h on are computed.
Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> projection,
                       Ragged<float> & out, std::span<const int> begin = {});

// The same by bytes. REQUIRES: has_byte_norms(); unit is one of byte_units().
Status output_l1_norms(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const ByteProjection & projection,
                       ByteUnit unit, Ragged<float> & out, std::span<const int> begin = {});
bool has_byte_norms(const GraphRunner & runner, const RaggedCache & cache, int layer);

}  // namespace pith
