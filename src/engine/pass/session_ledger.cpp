// session_ledger.cpp - bytes and entries; times are added where they are spent.
#include "engine/pass/session_ledger.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pith {
namespace {

void tell_device_bytes(LiveSession & session) {
    const auto & cache = session.seq.cache;
    size_t device = 0;
    for (DeviceUse & use : session.ledger.devices) {
        use.graph_bytes = session.forward->device_bytes(device) + session.pass.states_there().size_bytes(device);
        ++device;
        use.kv_bytes = 0;
        for (int l = use.first_layer; cache && l < use.first_layer + use.n_layers; ++l) {
            use.kv_bytes += cache->in_buckets(l) ? cache->allocated_bytes(l) : 0;
        }
    }
}

}  // namespace

void see_evidence_peak(LiveSession & session) {
    const Sequence & seq = session.seq;
    session.ledger.evidence_peak_bytes =
        std::max(session.ledger.evidence_peak_bytes,
                 seq.evidence.size_bytes() + seq.undo_evidence_bytes() + session.output->size_bytes());
}

void release_graphs(LiveSession & session) {
    const Sequence & seq = session.seq;
    session.pass.states_there().release();  // as many rows as the longest chunk had tokens
    if (seq.cache && !session.forward->can_run_tokens(*seq.cache, seq.evidence)) { return; }
    session.forward->release_devices();
}

void tell_budget(LiveSession & session) noexcept {
    const Sequence & seq = session.seq;
    session.ledger.budget_entries = seq.budget_now();
    session.ledger.most_entries = seq.plan ? seq.plan->most_at(seq.n_tokens) : 0;
}

void update_ledger(LiveSession & session) {
    const Sequence & seq = session.seq;
    Ledger & ledger = session.ledger;
    if (seq.cache) {
        const size_t saved = seq.saved_bytes();
        ledger.cold_entries = seq.cold.n_entries();
        ledger.cold_lost_entries = seq.cold.n_lost();
        ledger.cold_bytes = static_cast<int64_t>(seq.cold.size_bytes());
        ledger.kept_entries = seq.cache->n_entries();
        ledger.peak_lane_entries = seq.cache->peak_lane_entries();
        ledger.kv_needed_bytes = seq.cache->needed_bytes();
        ledger.n_lanes = session.shape().n_lanes();
        ledger.n_tokens = seq.n_tokens;
        ledger.kv_state_bytes = seq.states.size_bytes();
        ledger.kv_window_bytes = seq.cache->allocated_bytes(Layers::kWindows);
        ledger.kv_full_bytes = static_cast<size_t>(seq.n_tokens * ledger.n_lanes) * session.layout.entry_bytes() +
                               seq.cache->needed_bytes(Layers::kWindows) + ledger.kv_state_bytes;
        ledger.kv_needed_bytes += ledger.kv_state_bytes;
        ledger.kv_allocated_bytes = seq.cache->allocated_bytes() + ledger.kv_state_bytes + saved;
        ledger.kv_saved_bytes = saved;
        ledger.kv_peak_bytes =
            std::max({ledger.kv_peak_bytes, std::max(seq.cache->peak_bytes(), seq.peak_bytes()) + 2 * ledger.kv_state_bytes,
                      ledger.kv_allocated_bytes + ledger.kv_state_bytes});  // a call keeps those that it began with
    }
    tell_device_bytes(session);
    see_evidence_peak(session);
    ledger.activation_peak_bytes =
        std::max(ledger.activation_peak_bytes,
                 session.forward->activation_bytes() + session.pass.size_bytes() + session.ahead.size_bytes());
}

void forget_call(LiveSession & session, Ledger before) noexcept {
    Ledger & ledger = session.ledger;
    const Ledger spent = std::exchange(ledger, std::move(before));
    ledger.kv_peak_bytes = spent.kv_peak_bytes;
    ledger.evidence_peak_bytes = spent.evidence_peak_bytes;
    ledger.activation_peak_bytes = spent.activation_peak_bytes;
    ledger.gate_peak_bytes = spent.gate_peak_bytes;
    ledger.evidence_s = spent.evidence_s;
    ledger.plan_s = spent.plan_s;
    ledger.compact_s = spent.compact_s;
    ledger.gate_s = spent.gate_s;
    ledger.reread_s = spent.reread_s;
    ledger.look_back_s = spent.look_back_s;
    session.pass.release_states();  // of a whole prompt, perhaps
}

}  // namespace pith
