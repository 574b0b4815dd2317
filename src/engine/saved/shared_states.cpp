// shared_states.cpp - found by their tokens.
#include "engine/saved/shared_states.h"

#include <algorithm>
#include <utility>

namespace pith {
namespace {

// How many tokens both begin with.
int64_t n_common(const TokenHistory & history, std::span<const int32_t> tokens) {
    size_t n = 0;
    bool same = true;
    history.for_each_block([&](std::span<const int32_t> block) {
        if (!same) { return; }
        const auto rest = tokens.subspan(n, std::min(block.size(), tokens.size() - n));
        const auto differs = std::ranges::mismatch(block, rest).in1;
        n += static_cast<size_t>(differs - block.begin());
        same = differs == block.end();
    });
    return static_cast<int64_t>(n);
}

}  // namespace

std::shared_ptr<const SharedState> SharedStates::find(const StateScope & scope, std::span<const int32_t> tokens) const {
    std::shared_ptr<const SharedState> longest;
    for (const Held & one : held_) {
        const SequenceState & state = one.state->state;
        const bool ends_well =
            scope.whole_prompts ? state.n_tokens == std::ssize(tokens) : state.n_tokens <= std::ssize(tokens);
        const bool longer = !longest || state.n_tokens > longest->state.n_tokens;
        if (one.scope != scope.hash || !ends_well || !longer) { continue; }
        if (n_common(state.tokens, tokens) == state.n_tokens) { longest = one.state; }
    }
    return longest;
}

void SharedStates::add(const StateScope & scope, std::shared_ptr<const SharedState> state) noexcept {
    held_.push_back({scope.hash, std::move(state)});
}

void SharedStates::drop_idle() noexcept {
    std::erase_if(held_, [](const Held & one) { return !one.in_use(); });
}

size_t SharedStates::bytes_of(bool in_use_alone) const {
    size_t n = 0;
    for (const Held & one : held_) { n += in_use_alone && !one.in_use() ? 0 : one.state->cache->allocated_bytes(); }
    return n;
}

}  // namespace pith
