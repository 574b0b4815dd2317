// gate_state.h - what a session remembers of its gates between runs. Stage: engine.
// Copyable: snapshots and rollbacks hold copies, as they do of the evidence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "attention/cpu/hidden_keys.h"
#include "core/shape.h"

namespace pith {

// Keys and values of a causal gate, run after run; never changed once made, so that copies of the list share them.
struct GateBlock {
    std::vector<float> k;  // [n][h][d]
    std::vector<float> v;
    int n = 0;
};
using GateMemory = std::vector<std::shared_ptr<const GateBlock>>;

struct GateState {
    std::vector<HiddenKeys> hidden;  // [layer] entries a gate said no to, until their last query has passed
    std::vector<GateMemory> memory;  // [layer] of a causal gate

    GateState() = default;
    GateState(const CacheShape & shape, int n_recent)
        : hidden(static_cast<size_t>(shape.n_layers),
                 HiddenKeys{std::vector<std::vector<int32_t>>(static_cast<size_t>(shape.n_kv_heads)), n_recent}),
          memory(static_cast<size_t>(shape.n_layers)) {}

    bool hides_any() const {
        return std::ranges::any_of(hidden, [](const HiddenKeys & layer) { return layer.any(); });
    }
    // Whether it differs from what a session begins with.
    bool says_anything() const {
        return hides_any() || std::ranges::any_of(memory, [](const GateMemory & layer) { return !layer.empty(); });
    }
    // Nobody will ask for them any more: what they hide stays in the lanes.
    void show_all() noexcept {
        for (HiddenKeys & layer : hidden) {
            for (auto & lane : layer.positions) { lane.clear(); }
        }
    }
    size_t size_bytes() const {
        size_t n = 0;
        for (const GateMemory & layer : memory) {
            for (const auto & block : layer) { n += (block->k.capacity() + block->v.capacity()) * sizeof(float); }
        }
        return n;
    }
};

}  // namespace pith
