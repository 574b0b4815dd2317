// batch_part.cpp - rows counted up from part to part.
#include "engine/pass/batch_part.h"

#include "engine/pass/ahead_rows.h"

namespace pith {

namespace {

ColumnSums sums_of(const BatchPart & part) {
    if (part.ahead == nullptr) { return running_sums(*part.cache, *part.evidence, part.seq, part.n_behind); }
    const CacheLayout & layout = part.cache->layout();
    const auto n_heads = static_cast<size_t>(layout.shape.n_heads());
    part.ahead->sums.resize(static_cast<size_t>(layout.n_layers()) * n_heads);
    return [n_heads, part](int layer, int head) {
        const int kv_head = head / part.cache->layout().shape.n_group;
        const int length = part.cache->length(part.cache->lane(part.seq, layer, kv_head)) - part.n_behind;
        auto & paid = part.ahead->sums[static_cast<size_t>(layer) * n_heads + static_cast<size_t>(head)];
        paid.resize(static_cast<size_t>(length));
        return ColumnSum{nullptr, 0, paid.data()};
    };
}

}  // namespace

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
        of_lanes.n_behind = part.n_behind;
        of_lanes.n_together = part.n_together;
        if (sums && part.evidence->wants_running()) { of_lanes.sums = sums_of(part); }
        row += part.n;
    }
    return batch;
}

}  // namespace pith
