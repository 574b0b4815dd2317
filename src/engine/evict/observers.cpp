// observers.cpp - in, through a layer, and out again.
#include "engine/evict/observers.h"

#include <algorithm>
#include <utility>

#include "engine/pass/token_pass.h"

namespace pith {

void begin_observing(LiveSession & session, std::span<const int32_t> questions) {
    // Gates that evict decide what is cached before a layer's attention: observers that are taken back again have no place
    // there.
    const bool evict = known_gates(session) == KnownGates::kThreshold;
    const bool may_turn = session.seq.policy_asked.is_auto() && !evict;  // to a policy that asks none
    const bool asks_gates = session.gates && ((session.seq.policy.needs_gate() && !may_turn) || session.gates->has_observer() ||
                                              (evict && !session.observed.empty()));
    session.observers = asks_gates ? std::span<const int32_t>() : questions;
}

EvidenceNeeds needs_in_sight(const Policy & policy, std::span<const int32_t> observers) {
    EvidenceNeeds needs = policy.needs();
    if (observers.empty()) { return needs; }
    const auto n = static_cast<int>(observers.size());
    if (needs.any_window() || needs.last_query) { needs.window = std::max(needs.window, n); }
    if (needs.last_query) { needs.window_mean = true; }
    if (needs.running_last > 0) { needs.running_last = std::max(needs.running_last, n); }
    return needs;
}

Status observe(LiveSession & session, int layer, std::span<float> states) {
    const Sequence & seq = session.seq;
    const auto width = static_cast<size_t>(session.file->hparams().n_embd);
    const auto n = static_cast<int>(session.observers.size());
    for (int i = 0; i < n; i += seq.plan->chunk) {
        const int m = std::min(seq.plan->chunk, n - i);
        const auto tokens = session.observers.subspan(static_cast<size_t>(i), static_cast<size_t>(m));
        const auto rows = states.subspan(static_cast<size_t>(i) * width, static_cast<size_t>(m) * width);
        const int n_out = layer + 1 == session.n_layers() ? 1 : m;
        const auto first_position = static_cast<int32_t>(seq.n_tokens - n + i);
        PITH_RETURN_IF_ERROR(run_layer(session, layer, {tokens, rows, first_position, n_out, n - i - m}));
    }
    return {};
}

void take_back_observers(LiveSession & session, int layer, EvidenceState::Layer before) {
    Sequence & seq = session.seq;
    std::vector<int> lengths;
    for (int h = 0; h < seq.cache->n_kv_heads(layer); ++h) {
        lengths.push_back(seq.cache->length(seq.cache->lane(0, layer, h)) - static_cast<int>(session.observers.size()));
    }
    seq.cache->truncate(0, layer, lengths);
    seq.evidence.restore(layer, std::move(before), lengths);
}

void leave_out_observers(const LiveSession & session, std::vector<LayerPlan> & plans) {
    const RaggedCache & cache = *session.seq.cache;
    for (LayerPlan & one : plans) {
        Ragged<int32_t> keep;
        for (int h = 0; h < session.shape().n_kv_heads; ++h) {
            const auto row = one.keep.row(h);
            const int length = cache.length(cache.lane(0, one.layer, h));
            keep.push_row(row.first(static_cast<size_t>(std::ranges::lower_bound(row, length) - row.begin())));
        }
        one.keep = std::move(keep);
    }
}

}  // namespace pith
