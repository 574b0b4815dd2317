// sequence_aside.cpp - lanes, and the rest, as a cache file has them.
#include "engine/rest/sequence_aside.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/byte_stream.h"
#include "engine/rest/saved_gates.h"
#include "engine/rest/saved_session.h"

namespace pith {
namespace {

void write_rest(const LiveSession & session, ByteWriter & to) {
    const Sequence & seq = session.seq;
    seq.evidence.write(to);
    write_gates(seq.gate_state, to);
    for (int l = 0; l < session.n_layers(); ++l) {
        if (seq.states.has(l)) { to.array(seq.states.layer(l)); }
    }
    to.array(seq.logits);
}

}  // namespace

Result<SequenceAside> SequenceAside::take(LiveSession & session, const std::string & folder) {
    Sequence & seq = session.seq;
    SequenceAside aside;
    aside.capacity_ = seq.cache->capacity();
    PITH_ASSIGN_OR_RETURN(aside.lanes_, seq.cache->save(0, seq.lane_lengths(), Layers::kAll, Spill::kFile, folder));
    ByteWriter rest;
    write_rest(session, rest);
    aside.rest_bytes_ = rest.bytes().size();
    PITH_ASSIGN_OR_RETURN(aside.rest_, SpillMemory::make(aside.rest_bytes_, Spill::kFile, folder));
    std::ranges::copy(rest.bytes(), aside.rest_.data());
    SequenceAtRest stays{.state = seq};
    stays.state.evidence.reset();
    stays.state.gate_state = {};
    stays.state.states = {};
    seq.become(std::move(stays));
    return aside;
}

Status SequenceAside::put_back(LiveSession & session, std::optional<int64_t> room_to_fork) const {
    Sequence & seq = session.seq;
    const SeenEntries seen = seen_entries(session.layout, lanes_.lengths(), seq.n_tokens);
    const std::span<const uint8_t> bytes(rest_.data(), rest_bytes_);
    ByteReader from(bytes);
    SequenceAtRest back{.state = seq};
    PITH_ASSIGN_OR_RETURN(back.state.evidence, seq.evidence.read_again(from, seen.lengths, seen.n_seen));
    PITH_ASSIGN_OR_RETURN(back.state.gate_state, read_gates_of(session, from, seq.n_tokens));
    RecurrentStates & states = back.state.states;
    states = RecurrentStates(session.file->hparams());
    for (int l = 0; l < session.n_layers(); ++l) {
        if (!states.has(l)) { continue; }
        const std::vector<float> state = from.array<float>();
        if (state.size() != states.layer(l).size()) { from.fail(); }
        if (from.ok()) { std::ranges::copy(state, states.overwrite(l).begin()); }
    }
    back.logits = from.array<float>();
    if (!from.done()) { return {ErrorCode::kInternal, "what was set aside is not what comes back"}; }
    PITH_ASSIGN_OR_RETURN(back.cache, RaggedCache::make(session.layout, capacity_));
    PITH_RETURN_IF_ERROR(back.cache->load(0, lanes_));
    if (room_to_fork) { PITH_RETURN_IF_ERROR(back.cache->freeze(*room_to_fork)); }
    seq.become(std::move(back));
    return {};
}

}  // namespace pith
