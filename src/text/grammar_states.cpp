// grammar_states.cpp - states are made as they are come to. Stage: text.
#include "text/grammar_states.h"

#include <algorithm>
#include <bit>
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
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    for (char32_t c = 0; c < ascii_kinds_.size(); ++c) {
        ascii_kinds_[c] = static_cast<uint32_t>(std::ranges::upper_bound(borders_, c) - borders_.begin());
    }
    begin_tables();
}

void GrammarStates::begin_tables() {
    // Not clear(), which keeps their memory.
    nodes_ = std::vector<Node>(1);
    node_numbers_ = {};
    seen_ = {};
    state_numbers_ = {};
    states_ = {};
    n_members_ = 0;
    next_ = {};
    ways_ = {};
    state_called({});  // kDead
}

// How many borders stand at it or before.
uint32_t GrammarStates::kind_of(char32_t character) const {
    if (character < ascii_kinds_.size()) { return ascii_kinds_[character]; }
    return static_cast<uint32_t>(std::ranges::upper_bound(borders_, character) - borders_.begin());
}

bool GrammarStates::holds_kind(uint32_t set, uint32_t kind) {
    const CharacterSet & characters = grammar_.sets[set];
    spend(1 + std::bit_width(characters.end - characters.begin));
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
    const Ways & ways = ways_of(state);
    std::vector<uint32_t> open;
    spend(1 + std::bit_width(ways.singles.size()));
    const auto single = std::ranges::lower_bound(ways.singles, std::pair(character, uint32_t{0}));
    for (auto at = single; at != ways.singles.end() && at->first == character; ++at) { open.push_back(behind(at->second)); }
    for (const uint32_t at : ways.others) {
        if (is_spent()) { return kDead; }
        if (holds_kind(symbol(at).value(), kind)) { open.push_back(behind(at)); }
    }
    const uint32_t to = open.empty() ? kDead : state_of(std::move(open));
    if (!is_spent()) { next_.emplace(way, to); }
    return to;
}

uint32_t GrammarStates::next_token(uint32_t state, int32_t token) {
    std::vector<uint32_t> open;
    spend(states_[state]->size());
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

GrammarStates::NamedTokens GrammarStates::named_tokens(uint32_t state) {
    spend(states_[state]->size());
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

const GrammarStates::Ways & GrammarStates::ways_of(uint32_t state) {
    static const Ways none;
    if (const auto known = ways_.find(state); known != ways_.end()) { return known->second; }
    Ways ways;
    std::vector<std::pair<char32_t, char32_t>> spans;
    spend(states_[state]->size());
    for (const uint32_t at : *states_[state]) {
        if (is_spent()) { return none; }
        if (at == kNothing || symbol(at).kind() != GrammarKind::kCharacters) { continue; }
        const CharacterSet & set = grammar_.sets[symbol(at).value()];
        const std::span<const char32_t> bounds = grammar_.bounds_of(set);
        spend(1 + bounds.size());
        if (!set.all_others && bounds.size() == 2 && bounds[0] == bounds[1]) {
            ways.singles.emplace_back(bounds[0], at);
        } else {
            ways.others.push_back(at);
        }
        char32_t begin = 0;  // of what stands between the pairs
        for (size_t i = 0; i < bounds.size(); i += 2) {
            if (!set.all_others) {
                spans.emplace_back(bounds[i], bounds[i + 1]);
            } else if (bounds[i] > begin) {
                spans.emplace_back(begin, bounds[i] - 1);
            }
            begin = bounds[i + 1] + 1;
        }
        if (set.all_others && begin <= kMostCharacter) { spans.emplace_back(begin, kMostCharacter); }
    }
    std::ranges::sort(ways.singles);
    ways.characters = merged_spans(std::move(spans));
    n_members_ += ways.characters.size() + 2 * ways.singles.size() + ways.others.size();
    if (n_members_ > kMostMembers) { n_left_ = -1; }
    return is_spent() ? none : ways_.emplace(state, std::move(ways)).first->second;
}

bool GrammarStates::goes_on(uint32_t state, char32_t low, char32_t high) {
    const std::vector<char32_t> & characters = ways_of(state).characters;
    spend(1 + std::bit_width(characters.size()));
    return !is_spent() && any_between(characters, low, high);
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
