// container_grammar.cpp - commas where something stands before, and counts. Stage: text.
#include "text/container_grammar.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace pith {
namespace {

const std::string kComma = "ws \",\" ws ";

// At a property: something was said already, so many must still come, so many may.
using Stand = std::tuple<bool, int64_t, int64_t>;
using NextRules = std::map<Stand, std::optional<std::string>>;  // the rule for what follows; nothing: it cannot be

Stand behind(const Stand & stand) {
    const auto & [is_said, need, room] = stand;
    return {true, std::max<int64_t>(need - 1, 0), room < 0 ? room : room - 1};
}

std::optional<std::string> property_at(const PropertyRule & property, const Stand & stand, const NextRules & next,
                                       GrammarRules & rules) {
    std::vector<std::string> ways;
    if (std::get<2>(stand) != 0) {
        if (const auto & after = next.at(behind(stand))) {
            ways.push_back((std::get<0>(stand) ? kComma : "") + property.pair + (after->empty() ? "" : " " + *after));
        }
    }
    if (!property.must) {
        if (const auto & after = next.at(stand)) {
            if (ways.empty()) { return after; }
            ways.push_back(after->empty() ? "\"\"" : *after);
        }
    }
    if (ways.empty()) { return std::nullopt; }
    return rules.add(ways[0] + (ways.size() > 1 ? " | " + ways[1] : ""));
}

// Behind all properties that have names.
std::optional<std::string> others_at(const Stand & stand, const std::string & other, GrammarRules & rules) {
    const auto & [is_said, need, room] = stand;
    if (other.empty() || room == 0) { return need > 0 ? std::nullopt : std::optional(std::string()); }
    if (need > 1) { return std::nullopt; }
    if (is_said) { return rules.add("(" + kComma + other + ")" + repetition(need, room)); }
    const std::string some = other + " (" + kComma + other + ")" + repetition(0, room < 0 ? -1 : room - 1);
    return rules.add(need > 0 ? some : "(" + some + ")?");
}

}  // namespace

std::string repetition(int64_t least, int64_t most) {
    return '{' + std::to_string(least) + ',' + (most < 0 ? "" : std::to_string(most)) + '}';
}

std::string array_expression(const std::vector<std::string> & first, const std::string & other, int64_t least, int64_t most,
                             GrammarRules & rules) {
    if (most == 0) { return R"("[" ws "]")"; }
    const auto n_first = std::ssize(first);
    std::string tail;
    if (!other.empty()) {
        const int64_t n_least = std::max<int64_t>(least - n_first, 0);
        const int64_t n_most = most < 0 ? -1 : most - n_first;
        if (n_first > 0) {
            tail = "(" + kComma + other + ")" + repetition(n_least, n_most);
        } else {
            const std::string more = repetition(std::max<int64_t>(n_least - 1, 0), n_most < 0 ? -1 : n_most - 1);
            tail = other + " (" + kComma + other + ")" + more;
            if (least == 0) { tail = "(" + tail + ")?"; }
        }
    }
    for (auto i = most < 0 ? n_first : std::min<int64_t>(n_first, most); i-- > 0;) {
        tail = (i > 0 ? kComma : "") + first[static_cast<size_t>(i)] + (tail.empty() ? "" : " " + rules.add(tail));
        if (i >= least) { tail = "(" + tail + ")?"; }
    }
    return rules.add("\"[\" ws " + tail + " ws \"]\"");
}

std::string unique_array_expression(const std::vector<std::string> & values, int64_t least, int64_t most,
                                    GrammarRules & rules) {
    const size_t n_sets = size_t{1} << values.size();
    std::vector<std::string> names(n_sets);  // of what may follow once these were said; empty: nothing may
    for (size_t set = n_sets; set-- > 0;) {
        const auto n_said = static_cast<int64_t>(std::popcount(set));
        std::string body;
        for (size_t i = 0; i < values.size() && (most < 0 || n_said < most); ++i) {
            const size_t next = set | (size_t{1} << i);
            if (next == set || names[next].empty()) { continue; }
            body += (body.empty() ? "" : " | ") + (set == 0 ? "" : kComma) + values[i] + " " + names[next];
        }
        if (n_said >= least) { body += body.empty() ? "\"\"" : " | \"\""; }
        if (!body.empty()) { names[set] = rules.add(body); }
    }
    return names[0].empty() ? "" : "\"[\" ws " + names[0] + " ws \"]\"";
}

std::string object_expression(const std::vector<PropertyRule> & properties, const std::string & other, int64_t least,
                              int64_t most, GrammarRules & rules) {
    std::set<Stand> stands = {{false, least, most}};
    std::vector<std::set<Stand>> all;  // at each property
    for (const PropertyRule & property : properties) {
        all.push_back(stands);
        std::set<Stand> after;
        for (const Stand & stand : all.back()) {
            if (!property.must) { after.insert(stand); }
            if (std::get<2>(stand) != 0) { after.insert(behind(stand)); }
        }
        stands = std::move(after);
    }
    NextRules next;
    for (const Stand & stand : stands) { next[stand] = others_at(stand, other, rules); }
    for (size_t i = properties.size(); i-- > 0;) {
        NextRules here;
        for (const Stand & stand : all[i]) { here[stand] = property_at(properties[i], stand, next, rules); }
        next = std::move(here);
    }
    const auto & first = next[{false, least, most}];
    if (!first) { return {}; }
    return rules.add("\"{\" ws" + (first->empty() ? "" : " " + *first) + " ws \"}\"");
}

}  // namespace pith
