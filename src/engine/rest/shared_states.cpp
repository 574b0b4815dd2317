// shared_states.cpp - found by their tokens, dropped by when they were used.
#include "engine/rest/shared_states.h"

#include <algorithm>
#include <utility>

#include "cache/page_memory.h"
#include "core/hash64.h"

namespace pith {
namespace {

// How many tokens both begin with, the first `n_same` of which need no look. REQUIRES: both have as many.
int64_t n_common_behind(size_t n_same, const TokenHistory & history, std::span<const int32_t> tokens) {
    size_t n = 0;
    bool same = true;
    history.for_each_block([&](std::span<const int32_t> block) {
        if (!same) { return; }
        const size_t skipped = std::min(block.size(), n_same - std::min(n, n_same));
        const auto unread = block.subspan(skipped);
        const auto rest = tokens.subspan(n + skipped, std::min(unread.size(), tokens.size() - n - skipped));
        const auto differs = std::ranges::mismatch(unread, rest).in1;
        n += skipped + static_cast<size_t>(differs - unread.begin());
        same = differs == unread.end();
    });
    return static_cast<int64_t>(n);
}

}  // namespace

void SharedState::count_beside() noexcept {
    evidence_bytes = state.evidence.size_bytes();
    bytes_beside = evidence_bytes + state.gate_state.size_bytes() + state.tokens.size_bytes() +
                   logits.capacity() * sizeof(float) + (cache ? cache->bookkeeping_bytes() : 0);
}

PrefixHashes::PrefixHashes(std::span<const int32_t> tokens) {
    hashes_.reserve(tokens.size() / kStep);
    Hash64 hash;
    for (; tokens.size() >= kStep; tokens = tokens.subspan(kStep)) {
        hash.add({reinterpret_cast<const uint8_t *>(tokens.data()), kStep * sizeof(int32_t)});
        hashes_.push_back(hash.value());
    }
}

// Where two hashes differ, all behind them do.
size_t PrefixHashes::n_common(const PrefixHashes & other) const {
    size_t same = 0;
    size_t differs = std::min(hashes_.size(), other.hashes_.size()) + 1;
    while (differs - same > 1) {
        const size_t middle = same + (differs - same) / 2;
        (hashes_[middle - 1] == other.hashes_[middle - 1] ? same : differs) = middle;
    }
    return same * kStep;
}

SharedStates::SharedStates(uint64_t most_idle_bytes, int n_layers)
    : most_idle_bytes_(most_idle_bytes), most_states_(PageFile::most_open(n_layers).n_files) {}

int64_t SharedStates::n_common(const SharedState & state, const Wanted & wanted) const {
    const size_t by_hash = state.prefixes.n_common(wanted.prefixes);
    const int64_t common = n_common_behind(by_hash, state.state.tokens, wanted.tokens);
    n_compared_ += common - static_cast<int64_t>(by_hash);
    return common;
}

// Token by token: a hash is no proof.
bool SharedStates::begin_alike(const SharedState & state, std::span<const int32_t> tokens) const {
    n_compared_ += std::ssize(tokens);
    return n_common_behind(0, state.state.tokens, tokens) == std::ssize(tokens);
}

FoundShared SharedStates::find(const StateScope & scope, std::span<const int32_t> tokens) const {
    FoundShared longest;
    const Wanted wanted(tokens);
    const int64_t n = std::ssize(tokens);
    for (const Held & one : held_) {
        const SequenceState & state = one.state->state;
        const bool ends_well = scope.prefixes || (scope.whole_prompts ? state.n_tokens == n : state.n_tokens <= n);
        if (one.scope != scope.hash || !ends_well || state.n_tokens <= longest.n_tokens) { continue; }
        const int64_t common = n_common(*one.state, wanted);
        int64_t found = common == state.n_tokens ? common : 0;
        if (found == n && one.state->logits.empty()) { found = 0; }  // it was given up here, in the middle of another prompt
        // It has the logits of its own end alone, so something must be left to read.
        if (found == 0 && scope.prefixes) { found = chunk_end_before(*state.plan, std::min(common, n - 1)); }
        if (found > longest.n_tokens) { longest = {one.state, found}; }
    }
    if (longest.state && !begin_alike(*longest.state, tokens.first(static_cast<size_t>(longest.n_tokens)))) { return {}; }
    return longest;
}

bool SharedStates::covers(const StateScope & scope, std::span<const int32_t> tokens, bool has_logits) const {
    const Wanted wanted(tokens);
    return std::ranges::any_of(held_, [&](const Held & one) {
        const SequenceState & state = one.state->state;
        const bool long_enough = scope.prefixes ? state.n_tokens >= std::ssize(tokens) : state.n_tokens == std::ssize(tokens);
        if (has_logits && state.n_tokens == std::ssize(tokens) && one.state->logits.empty()) { return false; }
        return one.scope == scope.hash && long_enough && n_common(*one.state, wanted) == std::ssize(tokens) &&
               begin_alike(*one.state, tokens);
    });
}

void SharedStates::drop_contained(const StateScope & scope, std::span<const int32_t> tokens) noexcept {
    if (!scope.prefixes) { return; }
    std::erase_if(held_, [&](const Held & one) {
        const SequenceState & state = one.state->state;
        const bool shorter = one.scope == scope.hash && state.n_tokens < std::ssize(tokens);
        return shorter && !one.in_use() && n_common_behind(0, state.tokens, tokens) == state.n_tokens;
    });
}

void SharedStates::drop_given_up(const StateScope & scope, std::span<const int32_t> tokens) noexcept {
    std::erase_if(held_, [&](const Held & one) {
        const SequenceState & state = one.state->state;
        const bool given_up = one.scope == scope.hash && one.state->logits.empty() && state.n_tokens == std::ssize(tokens);
        return given_up && !one.in_use() && n_common_behind(0, state.tokens, tokens) == state.n_tokens;
    });
}

void SharedStates::add(const StateScope & scope, std::shared_ptr<SharedState> state) noexcept {
    state->count_beside();
    held_.push_back({scope.hash, std::move(state), ++now_});
}

void SharedStates::touch(const SharedState & state) noexcept {
    for (Held & one : held_) {
        if (one.state.get() == &state) { one.used = ++now_; }
    }
}

std::shared_ptr<SharedState> SharedStates::take_out(const SharedState & state) noexcept {
    const auto found = std::ranges::find_if(held_, [&](const Held & one) { return one.state.get() == &state; });
    std::shared_ptr<SharedState> taken = std::move(found->state);
    held_.erase(found);
    return taken;
}

void SharedStates::drop(const SharedState & state) noexcept {
    std::erase_if(held_, [&](const Held & one) { return one.state.get() == &state; });
}

bool SharedStates::drop_least_recent() noexcept {
    auto least = held_.end();
    for (auto one = held_.begin(); one != held_.end(); ++one) {
        if (!one->in_use() && (least == held_.end() || one->used < least->used)) { least = one; }
    }
    if (least == held_.end()) { return false; }
    held_.erase(least);
    return true;
}

void SharedStates::trim() noexcept {
    while ((whole_idle_bytes() > most_idle_bytes_ || held_.size() > most_states_) && drop_least_recent()) {}
}

size_t SharedStates::n_idle() const {
    return static_cast<size_t>(std::ranges::count_if(held_, [](const Held & one) { return !one.in_use(); }));
}

size_t SharedStates::state_bytes() const {
    size_t n = 0;
    for (const Held & one : held_) { n += one.state->state.states.size_bytes(); }
    return n;
}

size_t SharedStates::evidence_bytes() const {
    size_t n = 0;
    for (const Held & one : held_) { n += one.state->evidence_bytes; }
    return n;
}

size_t SharedStates::bytes_beside() const {
    size_t n = 0;
    for (const Held & one : held_) { n += one.state->bytes_beside; }
    return n;
}

size_t SharedStates::whole_idle_bytes() const {
    size_t n = 0;
    for (const Held & one : held_) { n += one.in_use() ? 0 : one.state->bytes() + one.state->bytes_beside; }
    return n;
}

size_t SharedStates::bytes_of(bool in_use) const {
    size_t n = 0;
    for (const Held & one : held_) { n += one.in_use() == in_use ? one.state->bytes() : 0; }
    return n;
}

}  // namespace pith
