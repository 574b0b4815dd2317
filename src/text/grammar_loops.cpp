// grammar_loops.cpp - rules that begin with themselves: whoever follows them never reads a character. Stage: text.
//
// A begins with B where B is the first symbol of an alternative of A, or what stands before it may be empty. Rules that begin
// with each other are a strongly connected part of this graph. One that goes on behind the B inside of such a part would grow
// without end; A ::= B alone says the same thing again, which (x*)* does, too, and a matcher sees that it was there. Source:
// strongly connected parts: Tarjan, Depth-first search and linear graph algorithms, 1972.
#include <algorithm>
#include <deque>

#include "text/grammar.h"

namespace pith {
namespace {

// Which rules have an alternative that is made of such rules and of symbols that are free. Each symbol is looked at once.
template <class IsFree>
std::vector<bool> rules_made_of(const Grammar & grammar, const IsFree & is_free) {
    struct Alternative {
        uint32_t rule = 0;
        uint32_t n_left = 0;  // symbols that are not free, as far as is known
    };
    std::vector<Alternative> alternatives;
    std::vector<std::vector<uint32_t>> mentions(grammar.n_rules());  // of a rule: the alternatives, once for each time
    std::vector<bool> made(grammar.n_rules());
    std::deque<uint32_t> found;
    const auto find = [&](uint32_t rule) {
        if (!made[rule]) { found.push_back(rule); }
        made[rule] = true;
    };
    for (uint32_t rule = 0; rule < grammar.n_rules(); ++rule) {
        for (const uint32_t begin : grammar.alternatives(rule)) {
            const auto at = static_cast<uint32_t>(alternatives.size());
            alternatives.push_back({rule, 0});
            for (uint32_t i = begin; grammar.symbols[i].kind() != GrammarKind::kEnd; ++i) {
                if (is_free(grammar.symbols[i])) { continue; }
                ++alternatives.back().n_left;
                if (grammar.symbols[i].kind() == GrammarKind::kRule) { mentions[grammar.symbols[i].value()].push_back(at); }
            }
            if (alternatives.back().n_left == 0) { find(rule); }
        }
    }
    for (; !found.empty(); found.pop_front()) {
        for (const uint32_t at : mentions[found.front()]) {
            if (--alternatives[at].n_left == 0) { find(alternatives[at].rule); }
        }
    }
    return made;
}

struct Edge {
    uint32_t to = 0;
    bool goes_on = false;  // something stands behind it
};

std::vector<std::vector<Edge>> beginnings(const Grammar & grammar) {
    const std::vector<bool> & empty = grammar.may_be_empty;
    std::vector<std::vector<Edge>> edges(grammar.n_rules());
    for (uint32_t rule = 0; rule < grammar.n_rules(); ++rule) {
        for (const uint32_t begin : grammar.alternatives(rule)) {
            for (uint32_t i = begin; grammar.symbols[i].kind() == GrammarKind::kRule; ++i) {
                edges[rule].push_back({grammar.symbols[i].value(), grammar.symbols[i + 1].kind() != GrammarKind::kEnd});
                if (!empty[grammar.symbols[i].value()]) { break; }
            }
        }
    }
    return edges;
}

// The strongly connected part that each rule is in. Tarjan's algorithm with a stack of its own.
std::vector<uint32_t> connected_parts(const std::vector<std::vector<Edge>> & edges) {
    constexpr uint32_t kNone = UINT32_MAX;
    struct Visit {
        uint32_t rule = 0;
        size_t next = 0;  // of its edges
    };
    std::vector<uint32_t> part(edges.size(), kNone);
    std::vector<uint32_t> order(edges.size(), kNone);  // in which they were come to
    std::vector<uint32_t> low(edges.size());           // the first that is reached from there
    std::vector<uint32_t> open;
    std::vector<Visit> path;
    uint32_t n_seen = 0;
    uint32_t n_parts = 0;
    const auto enter = [&](uint32_t rule) {
        order[rule] = low[rule] = n_seen++;
        open.push_back(rule);
        path.push_back({rule, 0});
    };
    for (uint32_t first = 0; first < edges.size(); ++first) {
        if (order[first] == kNone) { enter(first); }
        while (!path.empty()) {
            const uint32_t rule = path.back().rule;
            if (path.back().next < edges[rule].size()) {
                const uint32_t to = edges[rule][path.back().next++].to;
                if (order[to] == kNone) {
                    enter(to);
                } else if (part[to] == kNone) {
                    low[rule] = std::min(low[rule], order[to]);
                }
                continue;
            }
            path.pop_back();
            if (!path.empty()) { low[path.back().rule] = std::min(low[path.back().rule], low[rule]); }
            if (low[rule] != order[rule]) { continue; }
            for (uint32_t member = kNone; member != rule; open.pop_back()) { part[member = open.back()] = n_parts; }
            ++n_parts;
        }
    }
    return part;
}

}  // namespace

bool keep_what_ends(Grammar & grammar) {
    const auto is_free = [&grammar](GrammarSymbol symbol) {
        if (symbol.kind() != GrammarKind::kCharacters) { return symbol.kind() != GrammarKind::kRule; }
        const CharacterSet & set = grammar.sets[symbol.value()];
        return set.all_others || set.begin != set.end;
    };
    const std::vector<bool> ends = rules_made_of(grammar, is_free);
    std::vector<uint32_t> begins;
    std::vector<uint32_t> first;
    for (uint32_t rule = 0; rule < grammar.n_rules(); ++rule) {
        first.push_back(static_cast<uint32_t>(begins.size()));
        for (const uint32_t begin : grammar.alternatives(rule)) {
            uint32_t i = begin;
            for (; grammar.symbols[i].kind() != GrammarKind::kEnd; ++i) {
                const GrammarSymbol symbol = grammar.symbols[i];
                if (symbol.kind() == GrammarKind::kRule ? !ends[symbol.value()] : !is_free(symbol)) { break; }
            }
            if (grammar.symbols[i].kind() == GrammarKind::kEnd) { begins.push_back(begin); }
        }
    }
    first.push_back(static_cast<uint32_t>(begins.size()));
    grammar.begins = std::move(begins);
    grammar.first = std::move(first);
    return ends[grammar.root];
}

std::optional<uint32_t> rule_that_begins_with_itself(Grammar & grammar) {
    grammar.may_be_empty = rules_made_of(grammar, [](GrammarSymbol /*symbol*/) { return false; });
    const std::vector<std::vector<Edge>> edges = beginnings(grammar);
    grammar.ranks = connected_parts(edges);  // in the order in which they are found: what a part leads to was found before it
    const std::vector<uint32_t> & part = grammar.ranks;
    for (uint32_t rule = 0; rule < edges.size(); ++rule) {
        for (const Edge & edge : edges[rule]) {
            if (edge.goes_on && part[rule] == part[edge.to]) { return rule; }
        }
    }
    return {};
}

}  // namespace pith
