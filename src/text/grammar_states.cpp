// grammar_states.cpp - states are made as they are come to. Stage: text.
#include "text/grammar_states.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pith {
namespace {

// Of the tables, together about 60 MB.
constexpr size_t kMostNodes = size_t{256} << 10;
constexpr size_t kMostMembers = size_t{2} << 20;
constexpr size_t kMostNexts = size_t{1} << 20;

uint64_t pair_of(uint32_t high, uint32_t low) {
    return (uint64_t{high} << 32U) | low;
}

}  // namespace

size_t GrammarStates::Hash::operator()(const std::vector<uint32_t> & members) const {
    uint64_t hash = 0xCBF29CE484222325U;
    for (const uint32_t member : members) {
        hash = (hash ^ member) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 29U;
    }
    return static_cast<size_t>(hash);
}

GrammarStates::GrammarStates(Grammar grammar) : grammar_(std::move(grammar)) {
    for (size_t i = 0; i < grammar_.bounds.size(); i += 2) {
        borders_.push_back(grammar_.bounds[i]);
        borders_.push_back(grammar_.bounds[i + 1] + 1);
    }
    std::ranges::sort(borders_);
    borders_.erase(std::ranges::unique(borders_).begin(), borders_.end());
    for (char32_t c = 0; c < ascii_kinds_.size(); ++c) {
        ascii_kinds_[c] = static_cast<uint32_t>(std::ranges::upper_bound(borders_, c) - borders_.begin());
    }
    begin_tables();
}

void GrammarStates::begin_tables() {
    nodes_ = {Node{}};
    node_numbers_.clear();
    seen_.clear();
    state_numbers_.clear();
    states_.clear();
    n_members_ = 0;
    next_.clear();
    state_called({});  // kDead
}

// How many borders stand at it or before.
uint32_t GrammarStates::kind_of(char32_t character) const {
    if (character < ascii_kinds_.size()) { return ascii_kinds_[character]; }
    return static_cast<uint32_t>(std::ranges::upper_bound(borders_, character) - borders_.begin());
}

bool GrammarStates::holds_kind(uint32_t set, uint32_t kind) {
    const CharacterSet & characters = grammar_.sets[set];
    spend(1 + (characters.end - characters.begin) / 2);
    return grammar_.holds(characters, kind == 0 ? char32_t{0} : borders_[kind - 1]);  // the first of its kind speaks for all
}

uint32_t GrammarStates::node(uint32_t next_symbol, uint32_t rest) {
    if (grammar_.symbols[next_symbol].kind() == GrammarKind::kEnd) { return rest; }
    const auto [found, is_new] = node_numbers_.try_emplace(pair_of(next_symbol, rest), static_cast<uint32_t>(nodes_.size()));
    if (is_new) { nodes_.push_back({next_symbol, rest}); }
    return found->second;
}

uint32_t GrammarStates::state_called(std::vector<uint32_t> members) {
    const size_t n = members.size();
    const auto [found, is_new] = state_numbers_.try_emplace(std::move(members), static_cast<uint32_t>(states_.size()));
    if (is_new) {
        states_.push_back(&found->first);
        n_members_ += n;
    }
    return found->second;
}

// The places where a character, a token or the end comes next, behind all that may be said without one.
uint32_t GrammarStates::state_of(std::vector<uint32_t> open) {
    std::vector<uint32_t> members;
    ++round_;
    while (!open.empty() && !is_spent()) {
        const uint32_t at = open.back();
        open.pop_back();
        seen_.resize(nodes_.size());
        if (std::exchange(seen_[at], round_) == round_) { continue; }
        spend(1);
        if (at == kNothing || symbol(at).kind() != GrammarKind::kRule) {
            members.push_back(at);
            continue;
        }
        const uint32_t rest = behind(at);
        for (const uint32_t begin : grammar_.alternatives(symbol(at).value())) {
            spend(1);
            open.push_back(node(begin, rest));
        }
        if (nodes_.size() > kMostNodes) { n_left_ = -1; }
    }
    if (n_members_ + members.size() > kMostMembers || next_.size() > kMostNexts) { n_left_ = -1; }
    if (is_spent()) { return kDead; }
    std::ranges::sort(members);
    return state_called(std::move(members));
}

uint32_t GrammarStates::start() {
    std::vector<uint32_t> open;
    for (const uint32_t begin : grammar_.alternatives(grammar_.root)) { open.push_back(node(begin, kNothing)); }
    return state_of(std::move(open));
}

uint32_t GrammarStates::next(uint32_t state, char32_t character) {
    if (state == kDead) { return kDead; }
    const uint32_t kind = kind_of(character);
    const uint64_t way = pair_of(state, kind);
    if (const auto known = next_.find(way); known != next_.end()) { return known->second; }
    std::vector<uint32_t> open;
    for (const uint32_t at : *states_[state]) {
        const bool is_set = at != kNothing && symbol(at).kind() == GrammarKind::kCharacters;
        if (is_set && holds_kind(symbol(at).value(), kind)) { open.push_back(behind(at)); }
    }
    const uint32_t to = open.empty() ? kDead : state_of(std::move(open));
    if (!is_spent()) { next_.emplace(way, to); }
    return to;
}

uint32_t GrammarStates::next_token(uint32_t state, int32_t token) {
    std::vector<uint32_t> open;
    for (const uint32_t at : *states_[state]) {
        if (at == kNothing) { continue; }
        const GrammarSymbol here = symbol(at);
        const bool same = here.value() == static_cast<uint32_t>(token);
        if (here.kind() == GrammarKind::kToken ? same : here.kind() == GrammarKind::kOtherToken && !same) {
            open.push_back(behind(at));
        }
    }
    return open.empty() ? kDead : state_of(std::move(open));
}

GrammarStates::NamedTokens GrammarStates::named_tokens(uint32_t state) const {
    std::set<uint32_t> these;
    std::set<uint32_t> not_these;
    for (const uint32_t at : *states_[state]) {
        if (at == kNothing) { continue; }
        if (symbol(at).kind() == GrammarKind::kToken) { these.insert(symbol(at).value()); }
        if (symbol(at).kind() == GrammarKind::kOtherToken) { not_these.insert(symbol(at).value()); }
    }
    if (not_these.empty()) { return {std::move(these), false}; }
    // What is left out once may be named beside that; of two that are left out each is among the other's.
    const bool all = not_these.size() > 1 || these.contains(*not_these.begin());
    return {all ? std::set<uint32_t>() : std::move(not_these), true};
}

uint32_t GrammarStates::both(uint32_t one, uint32_t other) {
    std::vector<uint32_t> members;
    std::ranges::set_union(*states_[one], *states_[other], std::back_inserter(members));
    spend(members.size());
    return state_called(std::move(members));
}

bool GrammarStates::may_end(uint32_t state) const {
    return !states_[state]->empty() && states_[state]->front() == kNothing;
}

bool GrammarStates::goes_on(uint32_t state, char32_t low, char32_t high) {
    const uint32_t last = kind_of(high);
    for (const uint32_t at : *states_[state]) {
        if (at == kNothing || symbol(at).kind() != GrammarKind::kCharacters) { continue; }
        for (uint32_t kind = kind_of(low); kind <= last && !is_spent(); ++kind) {
            if (holds_kind(symbol(at).value(), kind)) { return true; }
        }
    }
    return false;
}

uint32_t GrammarStates::make_room(uint32_t state) {
    const bool has_room = nodes_.size() < kMostNodes / 2 && n_members_ < kMostMembers / 2 && next_.size() < kMostNexts / 2;
    if (has_room) { return state; }
    const std::vector<Node> nodes = std::move(nodes_);
    std::vector<uint32_t> members = *states_[state];
    begin_tables();
    std::unordered_map<uint32_t, uint32_t> made = {{kNothing, kNothing}};
    for (uint32_t & member : members) {
        std::vector<uint32_t> chain;
        for (uint32_t at = member; !made.contains(at); at = nodes[at].behind) { chain.push_back(at); }
        for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
            made[*at] = node(nodes[*at].symbol, made[nodes[*at].behind]);
        }
        member = made[member];
    }
    std::ranges::sort(members);
    return state_called(std::move(members));
}

}  // namespace pith
