// gate_probe.cpp - keeps what the gate runner shows. Stage: engine.
#include "engine/gate_probe.h"

#include <algorithm>
#include <string>

#include "core/items.h"
#include "core/text.h"
#include "engine/pass/live_session.h"

namespace pith {

GateProbe::GateProbe(Session & session) : session_(live_session(session)) {}

Status GateProbe::watch(int attention_layer) {
    if (!session_.gates) {
        return {ErrorCode::kInvalidArgument,
                "the model has no gates: load it with " + item::kGates + " FILE, made by `pith train gate`"};
    }
    if (attention_layer >= 0) {
        if (session_.gates->config().kind != GateKind::kAttention) {
            return {ErrorCode::kInvalidArgument, "linear gates have no attention to show"};
        }
        const std::vector<int> gated = layers_with_gate(session_.gates->config(), session_.file->hparams());
        if (!std::ranges::binary_search(gated, attention_layer)) {
            return {ErrorCode::kInvalidArgument,
                    "layer " + std::to_string(attention_layer) + " has no gate: give " + list_of_numbers(gated)};
        }
        session_.gates->runner().watch_attention(attention_layer, [this](const GateRunner::AttentionRows & seen) {
            blocks_.push_back({seen.head, seen.first_query, seen.n_queries, seen.n_keys, {seen.rows.begin(), seen.rows.end()}});
        });
    }
    session_.gates->set_observer([this](int layer, std::span<const float> probabilities, int n, int32_t /*first_position*/) {
        auto at = std::ranges::lower_bound(layers_, layer, {}, &GateLayerView::layer);
        if (at == layers_.end() || at->layer != layer) { at = layers_.insert(at, {layer, 0, 0, {}}); }
        at->n_tokens += n;
        at->n_kv_heads = session_.file->hparams().n_kv_heads;
        at->probability.insert(at->probability.end(), probabilities.begin(), probabilities.end());
    });
    return {};
}

std::vector<float> GateProbe::attention_map() const {
    if (blocks_.empty()) { return {}; }
    const auto n = static_cast<size_t>(blocks_.back().first_query + blocks_.back().n_queries);
    const auto n_heads = static_cast<size_t>(session_.gates->config().n_heads);
    std::vector<float> map(n_heads * n * n, 0.0F);
    for (const Block & block : blocks_) {
        for (int i = 0; i < block.n_queries; ++i) {
            const size_t row = static_cast<size_t>(block.head) * n + static_cast<size_t>(block.first_query + i);
            const auto from = block.rows.begin() + std::ptrdiff_t{i} * block.n_keys;
            std::copy(from, from + block.n_keys, map.begin() + static_cast<std::ptrdiff_t>(row * n));
        }
    }
    return map;
}

GateProbe::~GateProbe() {
    if (!session_.gates) { return; }
    session_.gates->set_observer({});
    session_.gates->runner().watch_attention(-1, {});
}

}  // namespace pith
