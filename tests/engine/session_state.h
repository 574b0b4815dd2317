// session_state.h - all that a session holds as bytes, to be compared with what it held before or what another holds.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/layer_probe.h"
#include "engine/pass/live_session.h"
#include "pith/session.h"

namespace pith::testing {

class Bytes {
public:
    template <class T>
    void add(const T & value) {
        static_assert(std::is_arithmetic_v<T>);
        const auto * begin = reinterpret_cast<const char *>(&value);
        bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
    }
    template <class T>
    void add_all(std::span<const T> values) {
        add(values.size());
        const auto * begin = reinterpret_cast<const char *>(values.data());
        bytes_.insert(bytes_.end(), begin, begin + values.size_bytes());
    }
    void add(const std::string & text) { add_all(std::span<const char>(text)); }
    template <class T>
    void add(const std::vector<std::vector<T>> & rows) {
        for (const auto & row : rows) { add_all(std::span<const T>(row)); }
    }
    void add(const std::vector<SharedRow> & rows) {
        for (const SharedRow & row : rows) { add_all(row.values()); }
    }
    bool operator==(const Bytes &) const = default;

private:
    std::string bytes_;
};

// What evictions took out of the lanes, where that is kept: wherever it lies.
inline void add_cold(Session & session, Bytes & bytes) {
    const Sequence & seq = live_session(session).seq;
    if (!seq.cold.on() || !seq.cache) { return; }
    bytes.add(seq.cold.n_entries());
    for (int layer = 0; layer < session.n_layers(); ++layer) {
        for (int h = 0; h < seq.cache->n_kv_heads(layer); ++h) {
            const int lane = seq.cache->lane(0, layer, h);
            std::vector<ColdStore::Entry> entries;
            ASSERT_TRUE(seq.cold.entries_of(lane, entries).ok());
            for (const ColdStore::Entry & one : entries) { bytes.add(one.position); }
            for (const bool keys : {true, false}) {
                const RowsOf of{layer, h, keys};
                std::vector<uint8_t> rows(entries.size() * row_bytes(seq.cold.layout(), of));
                ASSERT_TRUE(seq.cold.read_rows(lane, of, entries, seq.cold.layout(), rows.data()).ok());
                bytes.add_all(std::span<const uint8_t>(rows));
            }
        }
    }
}

// Tokens, logits, and what the lanes hold.
inline Bytes lanes_of(Session & session) {
    Bytes bytes;
    bytes.add(session.n_tokens());
    bytes.add_all(session.logits());
    LayerProbe probe(session);
    for (int l = 0; l < session.n_layers(); ++l) {
        if (session.n_tokens() > 0 && probe.states().has(l)) { bytes.add_all(probe.states().layer(l)); }
        const int n_lanes = session.n_tokens() > 0 ? probe.cache().n_kv_heads(l) : session.n_kv_heads();
        for (int h = 0; h < n_lanes; ++h) {
            const auto positions = session.lane_positions(l, h);
            bytes.add_all(positions);
            if (positions.empty()) { continue; }
            bytes.add(probe.cache().shift());
            bytes.add_all(probe.cache().turned(probe.cache().lane(0, l, h)));
            const LaneRows rows = probe.cache().layout().rows(l);
            std::vector<uint8_t> k(positions.size() * rows.bytes_k());
            std::vector<uint8_t> v(positions.size() * rows.bytes_v());
            probe.cache().read(0, l, h, 0, std::ssize(positions), k.data(), v.data());  // wherever they lie
            bytes.add_all(std::span<const uint8_t>(k));
            bytes.add_all(std::span<const uint8_t>(v));
        }
    }
    add_cold(session, bytes);
    return bytes;
}

// What attention left behind.
inline Bytes evidence_of(Session & session) {
    Bytes bytes;
    if (session.n_tokens() == 0) { return bytes; }
    LayerProbe probe(session);
    for (int l = 0; l < session.n_layers(); ++l) {
        const EvidenceState::Layer & evidence = probe.evidence().layer(l);
        for (size_t i = 0; i < evidence.queries.size(); ++i) { bytes.add_all(evidence.queries.row(i)); }
        bytes.add_all(evidence.queries.positions());
        bytes.add(evidence.running);
        bytes.add(evidence.retention);
        bytes.add(evidence.key_norms);
        bytes.add(evidence.reread);
        bytes.add(evidence.block_sums);
        for (size_t i = 0; i < evidence.block.size(); ++i) { bytes.add_all(evidence.block.row(i)); }
        bytes.add_all(evidence.block.positions());
        bytes.add(evidence.moments.n);
        bytes.add_all(std::span<const float>(evidence.moments.mean));
        bytes.add_all(std::span<const float>(evidence.moments.squares));
    }
    return bytes;
}

// What the ledger says of the state alone, not of the way to it.
inline Bytes ledger_state_of(const Session & session) {
    Bytes bytes;
    const Ledger & ledger = session.ledger();
    for (const std::string & text : {ledger.policy, ledger.policy_reason}) { bytes.add(text); }
    for (const int64_t n : {ledger.budget_entries, ledger.n_tokens, ledger.kept_entries}) { bytes.add(n); }
    bytes.add(ledger.kv_needed_bytes);
    bytes.add(ledger.kv_full_bytes);
    return bytes;
}

struct SessionState {
    Bytes lanes;
    Bytes evidence;
    Bytes ledger;
    bool operator==(const SessionState &) const = default;
};

// What a session holds, however it came to it.
inline SessionState contents_of(Session & session) {
    return {lanes_of(session), evidence_of(session), ledger_state_of(session)};
}

// The same, and what its ledger has counted on the way.
inline SessionState state_of(Session & session) {
    SessionState state = contents_of(session);
    const Ledger & ledger = session.ledger();
    state.ledger.add(ledger.schedule);
    for (const int64_t n : {ledger.n_lanes, ledger.n_prompt, ledger.n_generated, ledger.n_evictions, ledger.evicted_entries,
                            ledger.gate_seen_entries, ledger.gate_kept_entries}) {
        state.ledger.add(n);
    }
    return state;
}

}  // namespace pith::testing
