// saved_gates.cpp - what gates hide and remember, written and checked.
#include "engine/rest/saved_gates.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/byte_stream.h"
#include "engine/pass/live_session.h"

namespace pith {
namespace {

// For layers of this shape. key_floats: of a token's keys in a gate; 0: no gate remembers any.
Result<GateState> read_gates(ByteReader & from, const CacheShape & shape, int n_recent, size_t key_floats, int64_t n_tokens) {
    const Status bad(ErrorCode::kBadFile, "what it says of gates makes no sense");
    const auto n_layers = from.number<uint64_t>();
    if (n_layers == 0) { return from.ok() ? Result<GateState>(GateState()) : Result<GateState>(bad); }
    if (n_layers != static_cast<uint64_t>(shape.n_layers)) { return bad; }
    GateState gates(shape, n_recent);
    for (HiddenKeys & layer : gates.hidden) {
        for (std::vector<int32_t> & lane : layer.positions) {
            lane = from.array<int32_t>();
            const bool ascends = std::ranges::adjacent_find(lane, std::greater_equal<>()) == lane.end();
            if (!ascends || (!lane.empty() && (lane.front() < 0 || lane.back() >= n_tokens))) { return bad; }
        }
    }
    for (GateMemory & layer : gates.memory) {
        int64_t n = 0;
        const size_t n_blocks = from.count(sizeof(int) + 2 * sizeof(uint64_t));
        for (size_t i = 0; i < n_blocks; ++i) {
            auto block = std::make_shared<GateBlock>();
            block->n = from.number<int>();
            block->k = from.array<float>();
            block->v = from.array<float>();
            n += block->n;
            const bool fits = block->n > 0 && n <= n_tokens && key_floats > 0 &&
                              block->k.size() == static_cast<size_t>(block->n) * key_floats &&
                              block->v.size() == block->k.size();
            if (!fits) { return bad; }
            layer.push_back(std::move(block));
        }
    }
    if (!from.ok()) { return bad; }
    return gates;
}

}  // namespace

void write_gates(const GateState & gates, ByteWriter & to) {
    if (!gates.says_anything()) { return to.number(uint64_t{0}); }
    to.number(uint64_t{gates.hidden.size()});
    for (const HiddenKeys & layer : gates.hidden) {
        for (const std::vector<int32_t> & lane : layer.positions) { to.array(lane); }
    }
    for (const GateMemory & layer : gates.memory) {
        to.number(uint64_t{layer.size()});
        for (const auto & block : layer) {
            to.number(block->n);
            to.array(block->k);
            to.array(block->v);
        }
    }
}

Result<GateState> read_gates_of(const LiveSession & session, ByteReader & from, int64_t n_tokens) {
    if (!session.gates) { return read_gates(from, session.layout.shape_of_model(), 1, 0, n_tokens); }
    const GateConfig & config = session.gates->config();
    const bool remembers = config.causal && config.kind == GateKind::kAttention;
    const size_t key_floats = remembers ? static_cast<size_t>(config.head_dim) * static_cast<size_t>(config.n_heads) : 0;
    PITH_ASSIGN_OR_RETURN(GateState state,
                          read_gates(from, session.layout.shape_of_model(), config.n_recent, key_floats, n_tokens));
    if (state.hidden.empty()) { state = GateState(session.layout.shape_of_model(), config.n_recent); }  // it said nothing
    return state;
}

}  // namespace pith
