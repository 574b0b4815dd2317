// ranking.h - what a gate that ranks says of new entries, as part of their layer's graph. Stage: model graph → gate → evidence.
#pragma once

#include <span>
#include <vector>

#include "device/graph_runner.h"
#include "engine/pass/batch_part.h"

namespace pith {

inline constexpr size_t kRankingNodes = 10;  // of a part in a layer

// Rows [first, first + n) of x [D, …].
ggml_tensor * view_rows(ggml_context * ctx, ggml_tensor * x, int first, int n);

// x [D, n]: the normalised attention input of the part's rows. logits gets [n][K] after the run; nothing, where the part has no
// such gate or the gate none for the layer.
void build_ranking(GraphBuild & build, const BatchPart & part, int layer, ggml_tensor * x, std::vector<float> & logits);

// Of rows that are in the part's lanes; logits become probabilities.
// Throws std::bad_alloc, unless EvidenceState::prepare_token() came before.
void tell_ranking(const BatchPart & part, int layer, std::span<float> logits);

}  // namespace pith
