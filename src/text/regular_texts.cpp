// regular_texts.cpp - terms and their derivatives; automata from them. Stage: text.
#include "text/regular_texts.h"

#include <algorithm>
#include <iterator>

#include "text/grammar.h"

namespace pith {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

using States = std::vector<TextAutomaton::State>;

// What leads to the same end is one edge.
void join_edges(TextAutomaton::State & state) {
    std::map<uint32_t, std::vector<std::pair<char32_t, char32_t>>> spans;
    for (const TextAutomaton::Edge & edge : state.edges) {
        for (size_t i = 0; i < edge.on.size(); i += 2) { spans[edge.to].emplace_back(edge.on[i], edge.on[i + 1]); }
    }
    state.edges.clear();
    for (auto & [to, some] : spans) { state.edges.push_back({merged_spans(std::move(some)), to}); }
}

// Which states `first` leads to, those behind a state before it where no circle is.
std::vector<uint32_t> from_the_end(const States & states, uint32_t first) {
    std::vector<uint32_t> order;
    std::vector<bool> seen(states.size());
    std::vector<std::pair<uint32_t, size_t>> path;  // a state, and its next edge
    const auto enter = [&](uint32_t state) {
        if (seen[state]) { return; }
        seen[state] = true;
        path.emplace_back(state, 0);
    };
    enter(first);
    while (!path.empty()) {
        auto & [state, edge] = path.back();
        if (edge < states[state].edges.size()) {
            enter(states[state].edges[edge++].to);
        } else {
            order.push_back(state);
            path.pop_back();
        }
    }
    return order;
}

// Those from which no text may end go, and so do edges to them.
void leave_out_dead_ends(States & states) {
    std::vector<std::vector<uint32_t>> before(states.size());
    std::vector<uint32_t> open;
    std::vector<bool> lives(states.size());
    for (uint32_t i = 0; i < states.size(); ++i) {
        for (const auto & edge : states[i].edges) { before[edge.to].push_back(i); }
        if (states[i].may_end) { open.push_back(i); }
        lives[i] = states[i].may_end;
    }
    while (!open.empty()) {
        const uint32_t state = open.back();
        open.pop_back();
        for (const uint32_t other : before[state]) {
            if (!lives[other]) { open.push_back(other); }
            lives[other] = true;
        }
    }
    for (auto & state : states) {
        std::erase_if(state.edges, [&](const TextAutomaton::Edge & edge) { return !lives[edge.to]; });
    }
    if (!lives[0]) { states.clear(); }
}

// States that go on alike become one, from the end of the texts on; in circles only some are found. Linear, so it is done
// twice.
void put_equal_ones_together(States & states) {
    uint32_t first = 0;
    for (int round = 0; round < 2; ++round) {
        std::vector<uint32_t> now(states.size());
        for (uint32_t i = 0; i < states.size(); ++i) { now[i] = i; }
        std::map<std::vector<uint32_t>, uint32_t> known;
        for (const uint32_t i : from_the_end(states, first)) {
            TextAutomaton::State & state = states[i];
            for (auto & edge : state.edges) { edge.to = now[edge.to]; }
            join_edges(state);
            std::vector<uint32_t> key = {state.may_end ? 1U : 0U};
            for (const auto & edge : state.edges) {
                key.push_back(edge.to == i ? UINT32_MAX : edge.to);
                key.push_back(static_cast<uint32_t>(edge.on.size()));
                key.insert(key.end(), edge.on.begin(), edge.on.end());
            }
            now[i] = known.try_emplace(std::move(key), i).first->second;
        }
        for (auto & state : states) {
            for (auto & edge : state.edges) { edge.to = now[edge.to]; }
        }
        first = now[first];
    }
    const std::vector<uint32_t> order = from_the_end(states, first);
    std::vector<uint32_t> number(states.size());
    for (size_t i = 0; i < order.size(); ++i) { number[order[order.size() - 1 - i]] = static_cast<uint32_t>(i); }
    States kept(order.size());
    for (const uint32_t i : order) {
        for (auto & edge : states[i].edges) { edge.to = number[edge.to]; }
        kept[number[i]] = std::move(states[i]);
    }
    states = std::move(kept);
}

}  // namespace

size_t RegularTexts::Hash::operator()(const std::vector<uint32_t> & key) const {
    uint64_t hash = 0xCBF29CE484222325U;
    for (const uint32_t one : key) {
        hash = (hash ^ one) * 0x9E3779B97F4A7C15U;
        hash ^= hash >> 29U;
    }
    return static_cast<size_t>(hash);
}

RegularTexts::RegularTexts() {
    term(Kind::kEither, {}, false);
    term(Kind::kEmpty, {}, true);
    term(Kind::kAllBut, {kNothing}, true);
}

RegularTexts::Id RegularTexts::term(Kind kind, std::vector<uint32_t> of, bool may_end) {
    std::vector<uint32_t> key = of;
    key.push_back(static_cast<uint32_t>(kind));
    const auto [found, is_new] = numbers_.try_emplace(std::move(key), static_cast<Id>(terms_.size()));
    if (is_new) { terms_.push_back({kind, may_end, std::move(of)}); }
    return found->second;
}

RegularTexts::Id RegularTexts::one_of(Characters characters) {
    if (characters.empty()) { return kNothing; }
    const auto [found, is_new] = set_numbers_.try_emplace(characters, static_cast<uint32_t>(sets_.size()));
    if (is_new) { sets_.push_back(std::move(characters)); }
    return term(Kind::kCharacters, {found->second}, false);
}

RegularTexts::Id RegularTexts::literal(std::u32string_view text) {
    Id all = kEmpty;
    for (auto c = text.rbegin(); c != text.rend(); ++c) { all = then(one_of({*c, *c}), all); }
    return all;
}

RegularTexts::Id RegularTexts::then(Id one, Id other) {
    if (one == kNothing || other == kNothing) { return kNothing; }
    if (one == kEmpty) { return other; }
    if (other == kEmpty) { return one; }
    if (one == kAll && other == kAll) { return kAll; }
    if (terms_[one].kind == Kind::kThen) {
        const std::vector<uint32_t> parts = terms_[one].of;
        return then(parts[0], then(parts[1], other));
    }
    return term(Kind::kThen, {one, other}, terms_[one].may_end && terms_[other].may_end);
}

// Either or both, of sets that are neither twice there nor of the same kind themselves.
RegularTexts::Id RegularTexts::joined(Kind kind, std::vector<Id> sets) {
    const bool is_either = kind == Kind::kEither;
    const Id neutral = is_either ? kNothing : kAll;
    const Id winner = is_either ? kAll : kNothing;
    std::vector<Id> all;
    std::vector<std::pair<char32_t, char32_t>> spans;
    for (const Id set : sets) {
        if (set == winner) { return winner; }
        if (set == neutral) { continue; }
        if (is_spent()) { return kNothing; }
        n_steps_ += terms_[set].kind == kind ? std::ssize(terms_[set].of) : 1;
        if (terms_[set].kind == kind) {
            all.insert(all.end(), terms_[set].of.begin(), terms_[set].of.end());
        } else {
            all.push_back(set);
        }
    }
    if (is_either) {  // characters together
        std::vector<Id> others;
        for (const Id set : all) {
            if (terms_[set].kind != Kind::kCharacters) {
                others.push_back(set);
                continue;
            }
            const Characters & some = sets_[terms_[set].of[0]];
            for (size_t i = 0; i < some.size(); i += 2) { spans.emplace_back(some[i], some[i + 1]); }
        }
        if (!spans.empty()) { others.push_back(one_of(merged_spans(std::move(spans)))); }
        all = std::move(others);
    }
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    if (all.empty()) { return neutral; }
    if (all.size() == 1) { return all[0]; }
    for (const Id set : all) {  // a set and all that is not in it
        if (terms_[set].kind == Kind::kAllBut && std::ranges::binary_search(all, terms_[set].of[0])) { return winner; }
    }
    const auto may_end = [this](Id set) { return terms_[set].may_end; };
    const bool ends = is_either ? std::ranges::any_of(all, may_end) : std::ranges::all_of(all, may_end);
    return term(kind, std::move(all), ends);
}

RegularTexts::Id RegularTexts::either(std::vector<Id> sets) {
    return joined(Kind::kEither, std::move(sets));
}

RegularTexts::Id RegularTexts::both(std::vector<Id> sets) {
    return joined(Kind::kBoth, std::move(sets));
}

RegularTexts::Id RegularTexts::all_but(Id set) {
    if (is_spent()) { return kNothing; }  // never kAll, of which holds() is sure
    if (terms_[set].kind == Kind::kAllBut) { return terms_[set].of[0]; }
    return term(Kind::kAllBut, {set}, !terms_[set].may_end);
}

RegularTexts::Id RegularTexts::times(Id set, int low, int high) {
    if (high == 0 || set == kEmpty) { return kEmpty; }
    if (set == kNothing) { return low == 0 ? kEmpty : kNothing; }
    if (terms_[set].may_end) { low = 0; }
    if (low == 1 && high == 1) { return set; }
    if (set == kAll) { return kAll; }
    const bool without_end = terms_[set].kind == Kind::kTimes && terms_[set].of[1] == 0 && terms_[set].of[2] == UINT32_MAX;
    if (without_end) { return set; }
    const auto most = high < 0 ? UINT32_MAX : static_cast<uint32_t>(high);
    return term(Kind::kTimes, {set, static_cast<uint32_t>(low), most}, low == 0);
}

RegularTexts::Id RegularTexts::multiple(uint32_t of, uint32_t rest) {
    return term(Kind::kMultiple, {of, rest}, rest == 0);
}

RegularTexts::Id RegularTexts::behind(Id set, char32_t first) {
    const uint64_t key = (uint64_t{set} << 32U) | first;
    if (const auto known = behind_.find(key); known != behind_.end()) { return known->second; }
    ++n_steps_;
    if (is_spent()) { return kNothing; }
    const Kind kind = terms_[set].kind;
    const std::vector<uint32_t> of = terms_[set].of;  // terms_ grows
    Id out = kNothing;
    switch (kind) {
        case Kind::kEmpty:
            break;
        case Kind::kCharacters:
            out = any_between(sets_[of[0]], first, first) ? kEmpty : kNothing;
            break;
        case Kind::kThen:
            out = then(behind(of[0], first), of[1]);
            if (terms_[of[0]].may_end) { out = either({out, behind(of[1], first)}); }
            break;
        case Kind::kEither:
        case Kind::kBoth: {
            std::vector<Id> sets;
            sets.reserve(of.size());
            for (const Id one : of) { sets.push_back(behind(one, first)); }
            n_steps_ += std::ssize(of);
            out = joined(kind, std::move(sets));
            break;
        }
        case Kind::kAllBut:
            out = all_but(behind(of[0], first));
            break;
        case Kind::kTimes: {
            const int low = of[1] > 0 ? static_cast<int>(of[1]) - 1 : 0;
            const int high = of[2] == UINT32_MAX ? -1 : static_cast<int>(of[2]) - 1;
            out = then(behind(of[0], first), times(of[0], low, high));
            break;
        }
        case Kind::kMultiple:
            if (first >= '0' && first <= '9') {
                out = multiple(of[0], static_cast<uint32_t>((uint64_t{of[1]} * 10 + (first - '0')) % of[0]));
            }
            break;
    }
    behind_[key] = out;
    return out;
}

// Where another kind of first character begins. With repetitions.
void RegularTexts::borders(Id set, std::set<Id> & seen, std::vector<char32_t> & out) {
    ++n_steps_;
    if (is_spent() || !seen.insert(set).second) { return; }
    const Term & here = terms_[set];
    switch (here.kind) {
        case Kind::kEmpty:
            return;
        case Kind::kCharacters:
            for (size_t i = 0; i < sets_[here.of[0]].size(); i += 2) {
                out.push_back(sets_[here.of[0]][i]);
                out.push_back(sets_[here.of[0]][i + 1] + 1);
            }
            return;
        case Kind::kThen:
            borders(here.of[0], seen, out);
            if (terms_[here.of[0]].may_end) { borders(here.of[1], seen, out); }
            return;
        case Kind::kEither:
        case Kind::kBoth:
            for (const Id one : here.of) { borders(one, seen, out); }
            return;
        case Kind::kAllBut:
        case Kind::kTimes:
            borders(here.of[0], seen, out);
            return;
        case Kind::kMultiple:
            for (char32_t c = '0'; c <= '9' + 1; ++c) { out.push_back(c); }
            return;
    }
}

std::optional<bool> RegularTexts::holds(Id set, std::u32string_view text) {
    if (set == kAll) { return true; }
    for (const char32_t c : text) { set = behind(set, c); }
    return is_spent() ? std::nullopt : std::optional(terms_[set].may_end);
}

Result<TextAutomaton> RegularTexts::automaton(Id set, size_t most_states) {
    TextAutomaton out;
    std::unordered_map<Id, uint32_t> numbers;
    std::vector<Id> open;
    const auto state_of = [&](Id one) {
        const auto [found, is_new] = numbers.try_emplace(one, static_cast<uint32_t>(open.size()));
        if (is_new) { open.push_back(one); }
        return found->second;
    };
    state_of(set);
    for (size_t i = 0; i < open.size(); ++i) {
        TextAutomaton::State state;
        state.may_end = terms_[open[i]].may_end;
        std::vector<char32_t> ends = {0, kFirstSurrogate, kLastSurrogate + 1, kMostCharacter + 1};
        std::set<Id> seen;
        borders(open[i], seen, ends);
        if (is_spent()) { return {ErrorCode::kInvalidArgument, "takes too much work"}; }
        std::ranges::sort(ends);
        ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
        for (size_t k = 0; k + 1 < ends.size() && ends[k] <= kMostCharacter; ++k) {
            if (ends[k] >= kFirstSurrogate && ends[k] <= kLastSurrogate) { continue; }
            const Id next = behind(open[i], ends[k]);
            if (next != kNothing) { state.edges.push_back({{ends[k], ends[k + 1] - 1}, state_of(next)}); }
        }
        join_edges(state);
        out.states.push_back(std::move(state));
        if (is_spent()) { return {ErrorCode::kInvalidArgument, "takes too much work"}; }
        if (open.size() > most_states) {
            return {ErrorCode::kInvalidArgument, "has more than " + std::to_string(most_states) + " states"};
        }
    }
    leave_out_dead_ends(out.states);
    if (!out.states.empty()) { put_equal_ones_together(out.states); }
    return out;
}

}  // namespace pith
