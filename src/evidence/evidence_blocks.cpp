// evidence_blocks.cpp - attention within blocks: queries are kept until their block is full. Stage: attention → evidence.
//
// Blocks end at multiples of kBlockTokens, so that they are the same in every schedule and however a prompt comes in pieces.
#include <algorithm>

#include "evidence/block_attention.h"
#include "evidence/evidence_state.h"

namespace pith {

Status EvidenceState::close_block(GraphRunner & runner, const RaggedCache & cache, int seq, int layer_index) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    if (layer.block.empty() || (layer.block.positions().back() + 1) % kBlockTokens != 0) { return {}; }
    const int32_t begin = layer.block.positions().front();
    const std::vector<float> queries = layer.block.newest(layer.block.size());
    Ragged<float> sums;
    PITH_RETURN_IF_ERROR(
        block_attention(runner, cache, seq, layer_index, queries.data(), static_cast<int>(layer.block.size()), begin, sums));
    for (int head = 0; head < shape_.n_heads(); ++head) {
        SharedRow & of_head = layer.block_sums[static_cast<size_t>(head)];
        const auto positions = cache.positions(cache.lane(seq, layer_index, head / shape_.n_group));
        const auto n_before = static_cast<size_t>(std::ranges::lower_bound(positions, begin) - positions.begin());
        of_head.resize(std::min(of_head.size(), n_before), 0.0F);  // what was added by a call that failed afterwards goes
        of_head.make_room(n_before - of_head.size() + sums.row(head).size());
        while (of_head.size() < n_before) { of_head.append(sum_without_block(positions[of_head.size()])); }
        for (const float sum : sums.row(head)) { of_head.append(sum); }
    }
    layer.block.keep_newest(0);
    return {};
}

Status EvidenceState::close_blocks(GraphRunner & runner, const RaggedCache & cache, int seq) {
    for (int layer = 0; layer < shape_.n_layers; ++layer) { PITH_RETURN_IF_ERROR(close_block(runner, cache, seq, layer)); }
    return {};
}

void EvidenceState::add_to_block(int layer_index, const float * query, int32_t position) {
    KeptQueries & block = layers_[static_cast<size_t>(layer_index)].block;
    if (!block.empty() && block.positions().back() + 1 != position) { block.keep_newest(0); }  // a lane cut back since
    if (position >= kFirstTokens) { block.push(query, position); }
}

Status EvidenceState::add_blocks(GraphRunner & runner, const RaggedCache & cache, int seq, int layer, const float * queries,
                                 int n, int32_t first_position) {
    PITH_RETURN_IF_ERROR(close_block(runner, cache, seq, layer));
    for (int i = 0; i < n; ++i) {
        add_to_block(layer, queries + static_cast<size_t>(i) * query_size(), first_position + i);
        PITH_RETURN_IF_ERROR(close_block(runner, cache, seq, layer));
    }
    return {};
}

}  // namespace pith
