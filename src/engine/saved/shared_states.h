// shared_states.h - states in memory that several sequences of an engine go on from, each held once. Stage: engine.
//
// Whoever goes on from one reads its entries where they lie, and copies a page when it first writes to it. A state is in use as
// long as somebody holds a pointer to it: its pages stay for as long as a fork maps them.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "engine/sequence.h"
#include "pith/session.h"

namespace pith {

// What must be equal for a state to be used.
struct StateScope {
    uint64_t hash = 0;
    bool whole_prompts = false;  // its states depend on where their prompt ends
};

struct SharedState {
    SequenceState state;
    std::vector<float> logits;
    std::unique_ptr<const RaggedCache> cache;  // frozen
    SessionOptions options;
    int64_t n_evictions = 0;
    int64_t evicted_entries = 0;
};

class SharedStates {
public:
    // The longest of the scope that has read the first of these tokens, or all of them; null: none.
    std::shared_ptr<const SharedState> find(const StateScope & scope, std::span<const int32_t> tokens) const;

    // add() allocates nothing behind it. Throws std::bad_alloc.
    void prepare_to_add() { held_.reserve(held_.size() + 1); }
    void add(const StateScope & scope, std::shared_ptr<const SharedState> state) noexcept;

    // Those that nobody goes on from any more.
    void drop_idle() noexcept;
    size_t bytes() const { return bytes_of(/*in_use_alone=*/false); }  // K/V of all
    size_t bytes_in_use() const { return bytes_of(/*in_use_alone=*/true); }

private:
    struct Held {
        uint64_t scope = 0;
        std::shared_ptr<const SharedState> state;
        bool in_use() const { return state.use_count() > 1; }
    };
    size_t bytes_of(bool in_use_alone) const;

    std::vector<Held> held_;
};

}  // namespace pith
