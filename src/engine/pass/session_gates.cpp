// session_gates.cpp - answers become entries that are hidden, and then gone.
#include "engine/pass/session_gates.h"

#include <algorithm>

#include "core/stopwatch.h"
#include "engine/pass/forward.h"

namespace pith {

bool SessionGates::wants_prompt(const SequenceState & state, bool first) const {
    const bool ranks = config().purpose == GatePurpose::kRank;  // in the layers' own graphs (BatchPart::ranking)
    const bool wanted = state.policy.gated() || (state.evidence.wants_retention() && !ranks) || observer_;
    return wanted && (first || config().works_in_chunks());
}

bool SessionGates::need_whole_prompt(const Policy & policy, std::span<const EvidenceNeeds> observed) const {
    if (config().works_in_chunks()) { return false; }
    return policy.needs_gate() || observer_ || std::ranges::any_of(observed, &EvidenceNeeds::retention);
}

void SessionGates::reset(const CacheLayout & layout, SequenceState & state) {
    state.gate_state = GateState(layout.shape_of_model(), config().n_recent);
    forget_answers(layout.n_layers());
}

void SessionGates::end_call() {
    if (!asked_) { return; }
    asked_ = false;
    runner_.release();
    for (Answer & answer : answers_) { answer = {}; }
}

Status SessionGates::ask(const SessionParts & parts, int layer, const GateInput & in, int32_t first_position,
                         SequenceState & state, Ledger & ledger) {
    if (!asked_) { return {}; }
    const Stopwatch watch;
    runner_.runner().set_cancel(parts.forward->cancel());
    if (layer > 0) { answers_[static_cast<size_t>(layer - 1)] = {}; }  // that layer is done
    for (int l = layer; l < std::min(layer + 2, parts.n_layers()); ++l) {
        if (!has_gate(parts.layout, l) || config().input_layer(l) != layer) { continue; }
        Answer & answer = answers_[static_cast<size_t>(l)];
        answer.first_position = first_position;
        PITH_RETURN_IF_ERROR(runner_.run(l, in, state.gate_state.memory[static_cast<size_t>(l)], answer.probabilities));
        if (observer_) { observer_(l, answer.probabilities, in.n, first_position); }
    }
    ledger.gate_s += watch.seconds();
    ledger.gate_peak_bytes = std::max(ledger.gate_peak_bytes, runner_.size_bytes() + state.gate_state.size_bytes());
    return {};
}

// [n][K]; empty: nothing.
std::span<const float> SessionGates::said_of(const CacheLayout & layout, int layer, const BatchPart & part) const {
    if (!asked_ || !has_gate(layout, layer)) { return {}; }
    const auto n_kv = static_cast<size_t>(layout.shape.n_kv_heads);
    const Answer & answer = answers_[static_cast<size_t>(layer)];
    return std::span(answer.probabilities)
        .subspan(static_cast<size_t>(part.first_position - answer.first_position) * n_kv, static_cast<size_t>(part.n) * n_kv);
}

Status SessionGates::before_layer(const SessionParts & parts, int layer, BatchPart & part, Sequence & seq, Ledger & ledger) {
    PITH_RETURN_IF_ERROR(drop_hidden(layer, part.first_position, seq, ledger));
    const auto n_kv = static_cast<size_t>(parts.shape().n_kv_heads);
    const std::span<const float> said = said_of(parts.layout, layer, part);
    HiddenKeys & keys = seq.gate_state.hidden[static_cast<size_t>(layer)];
    if (seq.policy.gated()) {
        const auto is_pinned = [&](int32_t position) {
            return std::ranges::any_of(
                parts.options.pinned, [&](const PositionSpan & span) { return span.begin <= position && position < span.end; });
        };
        for (size_t i = 0; i < said.size(); ++i) {
            const int32_t position = part.first_position + static_cast<int32_t>(i / n_kv);
            const bool kept = said[i] > config().tau || is_pinned(position);
            if (!kept) { keys.positions[i % n_kv].push_back(position); }
            ledger.gate_kept_entries += kept ? 1 : 0;
        }
        ledger.gate_seen_entries += static_cast<int64_t>(said.size());
    }
    part.hidden_keys = keys.any() ? &keys : nullptr;
    return {};
}

Status SessionGates::after_layer(const SessionParts & parts, int layer, const BatchPart & part, Sequence & seq,
                                 Ledger & ledger) {
    const std::span<const float> said = said_of(parts.layout, layer, part);
    if (!said.empty() && seq.evidence.wants_retention() && config().purpose == GatePurpose::kThreshold) {
        seq.evidence.add_retention(*seq.cache, part.seq, layer, said);
    }
    return drop_hidden(layer, part.first_position + part.n, seq, ledger);
}

Status SessionGates::drop_hidden(int layer, int32_t next_position, Sequence & seq, Ledger & ledger) {
    HiddenKeys & keys = seq.gate_state.hidden[static_cast<size_t>(layer)];
    const auto n_gone = [&](const std::vector<int32_t> & lane) {
        return std::ranges::lower_bound(lane, next_position - keys.n_recent + 1) - lane.begin();
    };
    if (std::ranges::none_of(keys.positions, [&](const auto & lane) { return n_gone(lane) > 0; })) { return {}; }
    const Stopwatch watch;
    Ragged<int32_t> keep;
    std::vector<int32_t> row;
    for (size_t h = 0; h < keys.positions.size(); ++h) {
        auto & lane = keys.positions[h];
        const auto end = lane.begin() + n_gone(lane);
        const auto positions = seq.cache->positions(seq.cache->lane(0, layer, static_cast<int>(h)));
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
