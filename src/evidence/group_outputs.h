// group_outputs.h - what the query heads of a group do to an entry's value together, behind W_O. Stage: attention → evidence.
//
// Norms of single heads (output_norms.h) say nothing of heads that pull against each other. W_O^g of a whole group, stacked to
// [G·dv][D], has a factor of G·dv columns (OutputFactors::group_factor): in them products between heads are as behind W_O.
// Any K/V type and back end.   Threads: one at a time (the session's runner).
#pragma once

#include <span>

#include "cache/ragged_cache.h"
#include "core/ragged.h"
#include "device/graph_runner.h"

namespace pith {

// out [K · n_head_pairs]: ⟨v_j·W_O^g, v_j·W_O^other⟩ (policy/evidence/evidence.h).
// Cost per entry and KV head: O((G·dv)²) and O(G³·dv); scratch of one tile and of the factor.
Status output_pairs(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor,
                    Ragged<float> & out);

// ValueSource::output_errors(). weights and odds [H], out [K].   Cost per entry and KV head: O((G·dv)²).
// Errors: kInternal when the rows are not as long as their lanes.
Status output_errors(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, std::span<const float> group_factor,
                     const Ragged<float> & weights, const Ragged<float> & odds, Ragged<float> & out);

}  // namespace pith
