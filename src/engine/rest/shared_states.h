// shared_states.h - states in memory that sequences of an engine go on from, each held once. Stage: engine.
//
// Whoever goes on from one reads its entries where they lie, and copies a page when it first writes to it; or copies all it
// wants. A state is in use as long as somebody else holds a pointer to it: its pages stay for as long as a fork maps them. One
// that is idle may go at any time, the least recently used first.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/ragged_cache.h"
#include "engine/sequence/sequence.h"
#include "pith/session.h"

namespace pith {

// What must be equal for a state to be used.
struct StateScope {
    uint64_t hash = 0;
    bool whole_prompts = false;  // its states depend on where their prompt ends
    bool prefixes = false;       // cut back to a chunk's end, a state is that of fewer tokens: nothing is ever evicted
    uint64_t cold = 0;           // of the files of evicted rows, which its states share; 0: they share none
};

// Hashes of the first kStep tokens, the first 2·kStep, …: how many tokens two begin with is found without reading them all.
class PrefixHashes {
public:
    static constexpr size_t kStep = 64;

    PrefixHashes() = default;
    explicit PrefixHashes(std::span<const int32_t> tokens);
    // So many tokens are the same, as far as hashes say it: a multiple of kStep, and less than kStep too few.
    size_t n_common(const PrefixHashes & other) const;

private:
    std::vector<uint64_t> hashes_;
};

struct SharedState : SequenceAtRest {  // its cache is frozen
    SessionOptions options;
    PrefixHashes prefixes = {};  // of its tokens

    size_t bytes() const { return cache->allocated_bytes() + state.states.size_bytes(); }
    // What goes with it besides: evidence, which may be as much as a sixth of its entries, tokens, positions, logits. Counted
    // when it is added: it is frozen.
    size_t evidence_bytes = 0;
    size_t bytes_beside = 0;
    void count_beside() noexcept;
};

struct FoundShared {
    std::shared_ptr<const SharedState> state;  // null: none
    int64_t n_tokens = 0;                      // of it that serve, which may be fewer than it has read
};

class SharedStates {
public:
    // most_idle_bytes: of all that nobody goes on from, with what lies beside K/V. n_layers: of the model: each of a state's is
    // a region in a file, of which there may be so many at a time (cache/page_memory.h).
    SharedStates(uint64_t most_idle_bytes, int n_layers);

    uint64_t most_idle_bytes() const { return most_idle_bytes_; }
    // The longest beginning of these tokens, or all of them, that a state of the scope serves.   Cost, of covers(), too: reads
    // the tokens once; of each state's at most PrefixHashes::kStep, of the one that is found all.
    FoundShared find(const StateScope & scope, std::span<const int32_t> tokens) const;
    // Whether one is there that serves all of these tokens, or goes on behind them. has_logits: as well as one that has the
    // logits of the last would.
    bool covers(const StateScope & scope, std::span<const int32_t> tokens, bool has_logits = true) const;

    // add() allocates nothing behind it. Throws std::bad_alloc.
    void prepare_to_add() { held_.reserve(held_.size() + 1); }
    void add(const StateScope & scope, std::shared_ptr<SharedState> state) noexcept;
    // Idle ones go that were given up at the end of these tokens, in the middle of a prompt: a state with their logits comes.
    void drop_given_up(const StateScope & scope, std::span<const int32_t> tokens) noexcept;
    // Idle ones that the state of these tokens serves for go.
    void drop_contained(const StateScope & scope, std::span<const int32_t> tokens) noexcept;
    void touch(const SharedState & state) noexcept;
    // It is no longer here. REQUIRES: it is, and no other sequence uses it.
    std::shared_ptr<SharedState> take_out(const SharedState & state) noexcept;

    // Nobody is to go on from it any more; who does already holds it as long.
    void drop(const SharedState & state) noexcept;

    // Idle ones go until those that stay are few enough.
    void trim() noexcept;
    bool drop_least_recent() noexcept;                              // false: none is idle
    size_t bytes() const { return bytes_in_use() + bytes_idle(); }  // K/V, and states of recurrent layers
    size_t bytes_in_use() const { return bytes_of(/*in_use=*/true); }
    size_t bytes_idle() const { return bytes_of(/*in_use=*/false); }
    size_t whole_idle_bytes() const;  // with what lies beside K/V: all that comes free when they go
    size_t n_idle() const;
    size_t state_bytes() const;  // of bytes(): of recurrent layers
    size_t evidence_bytes() const;
    size_t bytes_beside() const;                        // evidence included
    int64_t n_compared() const { return n_compared_; }  // tokens, since it was made

private:
    struct Held {
        uint64_t scope = 0;
        std::shared_ptr<SharedState> state;
        uint64_t used = 0;  // when
        bool in_use() const { return state.use_count() > 1; }
    };
    size_t bytes_of(bool in_use) const;
    // Tokens that are being looked for.
    struct Wanted {
        explicit Wanted(std::span<const int32_t> of) : tokens(of), prefixes(of) {}
        std::span<const int32_t> tokens;
        PrefixHashes prefixes;
    };
    int64_t n_common(const SharedState & state, const Wanted & wanted) const;
    bool begin_alike(const SharedState & state, std::span<const int32_t> tokens) const;

    uint64_t most_idle_bytes_;
    size_t most_states_;
    uint64_t now_ = 0;  // counts uses
    std::vector<Held> held_;
    mutable int64_t n_compared_ = 0;
};

}  // namespace pith
