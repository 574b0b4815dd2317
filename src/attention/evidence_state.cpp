// evidence_state.cpp - kept queries, running sums, and the evidence made of them.
#include "attention/evidence_state.h"

#include <algorithm>
#include <utility>

#include "attention/observe.h"

namespace pith {

EvidenceState::EvidenceState(const CacheShape & shape, const EvidenceNeeds & needs) : shape_(shape), needs_(needs) {
    if (needs.window_mean || needs.window_sq) { n_kept_queries_ = needs.window; }
    if (needs.last_query) { n_kept_queries_ = std::max(n_kept_queries_, 1); }
    if (needs.running_sum) { n_kept_queries_ = std::max(n_kept_queries_, needs.running_last); }
    layers_.resize(static_cast<size_t>(shape.n_layers));
    for (Layer & layer : layers_) { layer.running.resize(static_cast<size_t>(shape.n_heads())); }
}

void EvidenceState::remember(int layer_index, const float * queries, int n, int32_t first_position) {
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    const auto row = static_cast<size_t>(shape_.n_heads()) * static_cast<size_t>(shape_.head_dim);
    const int n_new = std::min(n, n_kept_queries_);
    const int n_old = static_cast<int>(layer.query_positions.size());
    const int n_drop = std::max(0, n_old + n_new - n_kept_queries_);
    layer.queries.erase(layer.queries.begin(), layer.queries.begin() + static_cast<int64_t>(static_cast<size_t>(n_drop) * row));
    layer.query_positions.erase(layer.query_positions.begin(), layer.query_positions.begin() + n_drop);
    layer.queries.insert(layer.queries.end(), queries + static_cast<size_t>(n - n_new) * row,
                         queries + static_cast<size_t>(n) * row);
    for (int i = n - n_new; i < n; ++i) { layer.query_positions.push_back(first_position + i); }
}

Status EvidenceState::add_running(GraphRunner & runner, const RaggedCache & cache, int seq, int layer_index,
                                  const float * queries, int n, int32_t first_position) {
    std::vector<int32_t> positions(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) { positions[static_cast<size_t>(i)] = first_position + i; }
    Observed observed;
    PITH_RETURN_IF_ERROR(observe_queries(runner, cache, seq, layer_index, queries, positions, {.column_sum = true}, observed));
    Layer & layer = layers_[static_cast<size_t>(layer_index)];
    for (int head = 0; head < shape_.n_heads(); ++head) {
        auto & running = layer.running[static_cast<size_t>(head)];
        const auto sums = observed.column_sum.row(head);
        running.resize(sums.size(), 0.0F);  // a lane cut back or grown since
        for (size_t j = 0; j < sums.size(); ++j) { running[j] += sums[j]; }
    }
    return {};
}

Result<LayerEvidence> EvidenceState::gather(GraphRunner & runner, const RaggedCache & cache, int seq, int layer_index,
                                            int64_t n_seen) const {
    const Layer & layer = layers_[static_cast<size_t>(layer_index)];
    LayerEvidence evidence;
    evidence.layer = layer_index;
    evidence.n_kv_heads = shape_.n_kv_heads;
    evidence.n_group = shape_.n_group;
    evidence.n_seen = n_seen;
    for (int h = 0; h < shape_.n_kv_heads; ++h) {
        evidence.positions.push_row(cache.positions(cache.lane(seq, layer_index, h)));
    }

    const auto n_kept = static_cast<int>(layer.query_positions.size());
    const auto row = static_cast<size_t>(shape_.n_heads()) * static_cast<size_t>(shape_.head_dim);
    const auto observe_last = [&](int n, const ObserveWants & wants, Observed & observed) {
        const auto first = static_cast<size_t>(n_kept - n);
        return observe_queries(runner, cache, seq, layer_index, layer.queries.data() + first * row,
                               std::span(layer.query_positions).subspan(first), wants, observed);
    };
    if (needs_.window_mean || needs_.window_sq || needs_.last_query) {
        const int n = std::min(n_kept, std::max(needs_.window, 1));
        if (n == 0) { return {ErrorCode::kMissingEvidence, "no query has been seen yet"}; }
        Observed observed;
        PITH_RETURN_IF_ERROR(observe_last(n, {needs_.window_mean, needs_.window_sq, needs_.last_query}, observed));
        for (float & value : observed.column_sum.flat()) { value /= static_cast<float>(n); }
        evidence.n_window = n;
        evidence.window_mean = std::move(observed.column_sum);
        evidence.window_sq = std::move(observed.group_sq);
        evidence.last_query = std::move(observed.last);
    }
    if (needs_.running_sum && needs_.running_last > 0) {
        Observed observed;
        PITH_RETURN_IF_ERROR(observe_last(std::min(n_kept, needs_.running_last), {.column_sum = true}, observed));
        evidence.running_sum = std::move(observed.column_sum);
    } else if (needs_.running_sum) {
        for (const auto & running : layer.running) { evidence.running_sum.push_row(running); }
    }
    if (needs_.key_norm) { PITH_RETURN_IF_ERROR(key_norms(runner, cache, seq, layer_index, evidence.key_norm)); }
    return evidence;
}

void EvidenceState::compact(int layer_index, const Ragged<int32_t> & keep) {
    if (!wants_running()) { return; }
    for (int head = 0; head < shape_.n_heads(); ++head) {
        auto & running = layers_[static_cast<size_t>(layer_index)].running[static_cast<size_t>(head)];
        const auto kept = keep.row(head / shape_.n_group);
        for (size_t j = 0; j < kept.size(); ++j) { running[j] = running[static_cast<size_t>(kept[j])]; }
        running.resize(kept.size());
    }
}

size_t EvidenceState::size_bytes() const {
    size_t n = 0;
    for (const Layer & layer : layers_) {
        n += layer.queries.capacity() * sizeof(float) + layer.query_positions.capacity() * sizeof(int32_t);
        for (const auto & running : layer.running) { n += running.capacity() * sizeof(float); }
    }
    return n;
}

}  // namespace pith
