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
constexpr size_t kRecent = 4096;

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
    ++n_rooms_;
    // Not clear(), which keeps their memory.
    nodes_ = std::vector<Node>(2);  // kNothing, kOutside
    node_numbers_ = {};
    seen_ = {};
    called_ = {};
    state_numbers_ = {};
    states_ = {};
    insides_ = {};
    may_leave_ = {};
    recent_ = {};
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
    const auto [found, is_new] = node_numbers_.try_emplace(pair_of(next_symbol, rest), static_cast<uint32_t>(nodes_.size()));
    if (is_new) { nodes_.push_back({next_symbol, rest}); }
    return found->second;
}

// What comes once the node's symbol is said: the next one, or what follows its rule.
void GrammarStates::add_behind(uint32_t at, std::vector<uint32_t> & open) {
    if (!is_last(at)) {
        open.push_back(node(nodes_[at].symbol + 1, nodes_[at].behind));
        return;
    }
    const std::vector<uint32_t> & rest = *states_[nodes_[at].behind];
    spend(rest.size());
    open.insert(open.end(), rest.begin(), rest.end());
}

uint32_t GrammarStates::state_called(std::vector<uint32_t> members) {
    const size_t n = members.size();
    const auto [found, is_new] = state_numbers_.try_emplace(std::move(members), static_cast<uint32_t>(states_.size()));
    if (is_new) {
        states_.push_back(&found->first);
        const std::vector<uint32_t> & known = found->first;  // ascending, and kNothing may be the first
        may_leave_.push_back((n > 0 && known[0] == kOutside) || (n > 1 && known[1] == kOutside));
        n_members_ += n;
    }
    return found->second;
}

// The places where a character, a token or the end comes next, behind all that may be said without one. Rules that are called
// wait until whatever could call them, too, has been looked at: those of the highest rank come first.
uint32_t GrammarStates::state_of(std::vector<uint32_t> open) {
    std::vector<uint32_t> members;
    std::vector<std::pair<uint32_t, uint32_t>> calls;  // a heap: rank of the rule, node that calls it
    std::vector<uint32_t> together;
    ++round_;
    called_.resize(grammar_.n_rules());
    uint32_t rank = UINT32_MAX;  // of the rules that were begun last
    while (!is_spent()) {
        if (open.empty()) {
            if (calls.empty()) { break; }
            rank = calls.front().first;
            together.clear();
            while (!calls.empty() && calls.front().first == rank) {
                together.push_back(calls.front().second);
                std::ranges::pop_heap(calls);
                calls.pop_back();
            }
            add_rules(together, open);
            continue;
        }
        const uint32_t at = open.back();
        open.pop_back();
        seen_.resize(nodes_.size());
        if (std::exchange(seen_[at], round_) == round_) { continue; }
        spend(1);
        if (!is_place(at) || symbol(at).kind() != GrammarKind::kRule) {
            members.push_back(at);
            continue;
        }
        const uint32_t rule = symbol(at).value();
        if (grammar_.may_be_empty[rule]) { add_behind(at, open); }
        if (grammar_.ranks[rule] == rank) {  // the last symbol of a rule that says the same: what follows is known
            together = {at};
            add_rules(together, open);
            continue;
        }
        calls.emplace_back(grammar_.ranks[rule], at);
        std::ranges::push_heap(calls);
        if (nodes_.size() > kMostNodes) { n_left_ = -1; }
    }
    if (n_members_ + members.size() > kMostMembers || next_.size() > kMostNexts) { n_left_ = -1; }
    if (is_spent()) { return kDead; }
    std::ranges::sort(members);
    return state_called(std::move(members));
}

// The alternatives of the rules that are called: all of them go on with what follows any of the calls.
void GrammarStates::add_rules(const std::vector<uint32_t> & calls, std::vector<uint32_t> & open) {
    uint32_t rest = nodes_[calls[0]].behind;
    if (calls.size() > 1 || !is_last(calls[0])) {
        std::vector<uint32_t> all;
        for (const uint32_t at : calls) { add_behind(at, all); }
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());
        spend(all.size());
        rest = state_called(std::move(all));
    }
    for (const uint32_t at : calls) {
        const uint32_t rule = symbol(at).value();
        if (std::exchange(called_[rule], round_) == round_) { continue; }
        for (const uint32_t begin : grammar_.alternatives(rule)) {
            spend(1);
            if (grammar_.symbols[begin].kind() != GrammarKind::kEnd) { open.push_back(node(begin, rest)); }
        }
    }
}

uint32_t GrammarStates::start() {
    const uint32_t end = state_called({kNothing});
    std::vector<uint32_t> open;
    for (const uint32_t begin : grammar_.alternatives(grammar_.root)) {
        open.push_back(grammar_.symbols[begin].kind() == GrammarKind::kEnd ? kNothing : node(begin, end));
    }
    return state_of(std::move(open));
}

uint32_t GrammarStates::inside_of(uint32_t state) {
    constexpr uint32_t kKept = 3;
    return without_calls(state, kKept);
}

// Calls itself so often at most.
uint32_t GrammarStates::without_calls(uint32_t state, uint32_t n_kept) {
    const uint64_t key = pair_of(state, n_kept);
    if (const auto known = insides_.find(key); known != insides_.end()) { return known->second; }
    std::vector<uint32_t> members;
    for (const uint32_t at : *states_[state]) {
        if (!is_place(at)) {
            members.push_back(at);
            continue;
        }
        const uint32_t rest = n_kept == 0 ? state_called({kOutside}) : without_calls(nodes_[at].behind, n_kept - 1);
        members.push_back(node(nodes_[at].symbol, rest));
    }
    spend(1 + members.size());
    std::ranges::sort(members);
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const uint32_t made = state_called(std::move(members));
    insides_[key] = made;
    return made;
}

bool GrammarStates::is_known_to_go_on(uint32_t state) const {
    return states_[state]->size() > (may_leave(state) ? 1U : 0U);
}

uint32_t GrammarStates::next(uint32_t state, char32_t character) {
    if (state == kDead) { return kDead; }
    const uint32_t kind = kind_of(character);
    const uint64_t way = pair_of(state, kind);
    if (recent_.empty()) { recent_.resize(kRecent); }
    Recent & recent = recent_[(state * 61 + kind) % kRecent];
    if (recent.way == way) { return recent.to; }
    if (const auto known = next_.find(way); known != next_.end()) {
        recent = {way, known->second};
        return known->second;
    }
    const Ways & ways = ways_of(state);
    std::vector<uint32_t> open;
    spend(1 + std::bit_width(ways.singles.size()));
    const auto single = std::ranges::lower_bound(ways.singles, std::pair(character, uint32_t{0}));
    for (auto at = single; at != ways.singles.end() && at->first == character; ++at) { add_behind(at->second, open); }
    for (const uint32_t at : ways.others) {
        if (is_spent()) { return kDead; }
        if (holds_kind(symbol(at).value(), kind)) { add_behind(at, open); }
    }
    const uint32_t to = open.empty() ? kDead : state_of(std::move(open));
    if (!is_spent()) { next_.emplace(way, to); }
    return to;
}

uint32_t GrammarStates::next_token(uint32_t state, int32_t token) {
    std::vector<uint32_t> open;
    spend(states_[state]->size());
    for (const uint32_t at : *states_[state]) {
        if (!is_place(at)) { continue; }
        const GrammarSymbol here = symbol(at);
        const bool same = here.value() == static_cast<uint32_t>(token);
        if (here.kind() == GrammarKind::kToken ? same : here.kind() == GrammarKind::kOtherToken && !same) {
            add_behind(at, open);
        }
    }
    return open.empty() ? kDead : state_of(std::move(open));
}

GrammarStates::NamedTokens GrammarStates::named_tokens(uint32_t state) {
    spend(states_[state]->size());
    std::set<uint32_t> these;
    std::set<uint32_t> not_these;
    for (const uint32_t at : *states_[state]) {
        if (!is_place(at)) { continue; }
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
        if (!is_place(at) || symbol(at).kind() != GrammarKind::kCharacters) { continue; }
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
    const StateNumbers numbers = std::move(state_numbers_);  // which has the members
    const std::vector<const std::vector<uint32_t> *> states = std::move(states_);
    begin_tables();
    // What follows a place is older than any state that has it, so what is needed is found from the newest on.
    std::vector<uint32_t> needed;
    std::vector<bool> is_needed(states.size());
    std::vector<uint32_t> open = {state};
    is_needed[state] = true;
    while (!open.empty()) {
        needed.push_back(open.back());
        open.pop_back();
        for (const uint32_t at : *states[needed.back()]) {
            if (is_place(at) && !is_needed[nodes[at].behind]) { open.push_back(nodes[at].behind); }
            if (is_place(at)) { is_needed[nodes[at].behind] = true; }
        }
    }
    std::ranges::sort(needed);
    std::unordered_map<uint32_t, uint32_t> made;
    for (const uint32_t one : needed) {
        std::vector<uint32_t> members = *states[one];
        for (uint32_t & at : members) {
            if (is_place(at)) { at = node(nodes[at].symbol, made.at(nodes[at].behind)); }
        }
        std::ranges::sort(members);
        made[one] = state_called(std::move(members));
    }
    return made.at(state);
}

}  // namespace pith
