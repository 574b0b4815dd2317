// batch_part.cpp - rows counted up from part to part.
#include "engine/pass/batch_part.h"

namespace pith {

int n_rows(std::span<const BatchPart> parts) {
    int n = 0;
    for (const BatchPart & part : parts) { n += part.n; }
    return n;
}

LaneBatch lane_batch(std::span<const BatchPart> parts, bool sums) {
    LaneBatch batch;
    int row = 0;
    for (const BatchPart & part : parts) {
        LanePart & of_lanes = batch.parts.emplace_back();
        of_lanes.cache = part.cache;
        of_lanes.seq = part.seq;
        of_lanes.first_row = row;
        of_lanes.n = part.n;
        of_lanes.hidden = part.hidden_keys;
        of_lanes.owner = part.evidence;
        if (sums && part.evidence->wants_running()) { of_lanes.sums = running_sums(*part.cache, *part.evidence, part.seq); }
        row += part.n;
    }
    return batch;
}

}  // namespace pith
