// gating.cpp - a session's gates: asked in front of a layer, their answers hidden from later queries, and taken out of the
// lanes as soon as no query to come sees them. Stage: gate → attention → compaction.
#include <algorithm>

#include "core/stopwatch.h"
#include "engine/session_impl.h"

namespace pith {

bool Session::Impl::has_gate(int layer) const {
    return layout.governs(layer) && gates->config().has_gate(layer);
}

bool Session::Impl::wants_gates() const {
    return gates && (seq.policy.gated() || seq.evidence.wants_retention() || gate_observer);
}

bool Session::Impl::needs_whole_prompt(const Policy & for_policy) const {
    if (!gates || gates->config().works_in_chunks()) { return false; }
    return for_policy.needs_gate() || gate_observer ||
           std::ranges::any_of(observed, [](const EvidenceNeeds & needs) { return needs.retention; });
}

// Which tokens the gates are asked about: prompts, of which a gate that must see a whole one knows the first only.
bool Session::Impl::gates_prompt(bool first) const {
    return wants_gates() && (first || gates->config().works_in_chunks());
}

void Session::Impl::reset_gates() {
    if (!gates) { return; }
    seq.gate_state = GateState(layout.shape_of_model(), gates->config().n_recent);
    answers.assign(static_cast<size_t>(n_layers()), {});
}

void Session::Impl::end_gating() {
    if (!gating) { return; }
    gating = false;
    gates->release();
    for (GateAnswer & answer : answers) { answer = {}; }
}

// Asks the gates that read the input of `layer`: its own, or that of the layer after.
Status Session::Impl::ask_gates(int layer, const GateInput & in, int32_t first_position) {
    if (!gating) { return {}; }
    const Stopwatch watch;
    gates->runner().set_cancel(forward->cancel());
    if (layer > 0) { answers[static_cast<size_t>(layer - 1)] = {}; }  // that layer is done
    for (int l = layer; l < std::min(layer + 2, n_layers()); ++l) {
        if (!has_gate(l) || gates->config().input_layer(l) != layer) { continue; }
        GateAnswer & answer = answers[static_cast<size_t>(l)];
        answer.first_position = first_position;
        PITH_RETURN_IF_ERROR(gates->run(l, in, seq.gate_state.memory[static_cast<size_t>(l)], answer.probabilities));
        if (gate_observer) { gate_observer(l, answer.probabilities, in.n, first_position); }
    }
    ledger.gate_s += watch.seconds();
    ledger.gate_peak_bytes = std::max(ledger.gate_peak_bytes, gates->size_bytes() + seq.gate_state.size_bytes());
    return {};
}

// Forward::run_layer() under the gates' answers, where there are any: n tokens from first_position on.
Status Session::Impl::run_layer(int layer, std::span<const int32_t> tokens, std::span<float> rows, int n,
                                int32_t first_position, int n_out, int n_to_come) {
    BatchPart part{seq.cache.get(), &seq.evidence, 0, n, first_position, n_to_come, &seq.states};
    if (!gates) { return forward->run_layer(part, layer, tokens, rows, n_out); }
    PITH_RETURN_IF_ERROR(drop_hidden(layer, first_position));
    const auto n_kv = static_cast<size_t>(shape().n_kv_heads);
    std::span<const float> said;  // [n][K]; empty: nothing
    if (gating && has_gate(layer)) {
        const GateAnswer & answer = answers[static_cast<size_t>(layer)];
        said = std::span(answer.probabilities)
                   .subspan(static_cast<size_t>(first_position - answer.first_position) * n_kv, static_cast<size_t>(n) * n_kv);
    }
    HiddenKeys & keys = seq.gate_state.hidden[static_cast<size_t>(layer)];
    if (seq.policy.gated()) {
        const auto is_pinned = [&](int32_t position) {
            return std::ranges::any_of(
                options.pinned, [&](const PositionSpan & span) { return span.begin <= position && position < span.end; });
        };
        for (size_t i = 0; i < said.size(); ++i) {
            const int32_t position = first_position + static_cast<int32_t>(i / n_kv);
            const bool kept = said[i] > gates->config().tau || is_pinned(position);
            if (!kept) { keys.positions[i % n_kv].push_back(position); }
            ledger.gate_kept_entries += kept ? 1 : 0;
        }
        ledger.gate_seen_entries += static_cast<int64_t>(said.size());
    }
    if (keys.any()) { part.hidden_keys = &keys; }
    PITH_RETURN_IF_ERROR(forward->run_layer(part, layer, tokens, rows, n_out));
    if (!said.empty() && seq.evidence.wants_retention()) {
        std::vector<int> lengths;
        for (int h = 0; h < shape().n_kv_heads; ++h) { lengths.push_back(seq.cache->length(seq.cache->lane(0, layer, h))); }
        seq.evidence.add_retention(layer, said, lengths);
    }
    return drop_hidden(layer, first_position + n);
}

// Takes out of the layer's lanes what a query at next_position, or later, does not see.
Status Session::Impl::drop_hidden(int layer, int32_t next_position) {
    HiddenKeys & keys = seq.gate_state.hidden[static_cast<size_t>(layer)];
    const auto n_gone = [&](const std::vector<int32_t> & lane) {
        return std::ranges::lower_bound(lane, next_position - keys.n_recent + 1) - lane.begin();
    };
    if (std::ranges::none_of(keys.positions, [&](const auto & lane) { return n_gone(lane) > 0; })) { return {}; }
    const Stopwatch watch;
    Ragged<int32_t> keep;
    std::vector<int32_t> row;
    for (int h = 0; h < shape().n_kv_heads; ++h) {
        auto & lane = keys.positions[static_cast<size_t>(h)];
        const auto end = lane.begin() + n_gone(lane);
        const auto positions = seq.cache->positions(seq.cache->lane(0, layer, h));
        row.clear();
        auto next = lane.begin();
        for (size_t j = 0; j < positions.size(); ++j) {
            while (next != end && *next < positions[j]) { ++next; }
            if (next == end || *next != positions[j]) { row.push_back(static_cast<int32_t>(j)); }
        }
        keep.push_row(row);
    }
    const LayerPlan plan{layer, std::move(keep)};
    PITH_RETURN_IF_ERROR(seq.compact(std::span(&plan, 1), /*evicts=*/false, /*is_last=*/false).status());
    for (auto & lane : keys.positions) { lane.erase(lane.begin(), lane.begin() + n_gone(lane)); }
    ledger.compact_s += watch.seconds();
    return {};
}

}  // namespace pith
