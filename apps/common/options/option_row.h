// option_row.h - what is known of an option of the command line, in one place: its names, its help, its value, and what the
// library calls it. Help, completion, manual pages, messages and the reading of arguments are made from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith::app {

// What can stand where an option wants a value.
enum class ValueKind {
    kNone,  // a flag takes none
    kText,  // anything: nothing to offer
    kFile,
    kFolder,
    kOneOf,    // one of the choices
    kListOf,   // choices joined by ','
    kPolicies  // choices joined by '+' to a policy, policies joined by ','
};

using Words = std::vector<std::string>;

struct OptionRow {
    std::string_view names;             // "-m,--model": as CLI11 wants them; the first long one is what messages say
    std::string_view help = {};         // empty: every command says its own
    std::string_view group = {};        // the heading that help and manual pages list it under; options.h gives it
    ValueKind kind = ValueKind::kNone;  // a number is kText
    std::string_view choices = {};      // of kOneOf, between blanks
    Words (*list)() = nullptr;          // or they come from a list of the library's
    bool may_be_empty = false;          // its value: "" is a text, or the option itself says what it wants
    std::string_view llama_names = {};  // what llama.cpp calls it besides, between blanks: "-ngl --gpu-layers"
    std::string_view llama_in = {};     // the commands that take those, between blanks; empty: all
    Item item = {};                     // the library's, which messages call by this option
    std::string_view item_shown = {};   // how they call it; empty: by the first long name
};

// Calls visit(word) for each part of `list` between separators, in turn, until one returns true. Whether one did.
template <class Visit>
constexpr bool any_word(std::string_view list, char separator, const Visit & visit) {
    while (!list.empty()) {
        const size_t end = list.find(separator);
        if (visit(list.substr(0, end))) { return true; }
        if (end == std::string_view::npos) { return false; }
        list.remove_prefix(end + 1);
    }
    return false;
}

constexpr bool has_word(std::string_view list, char separator, std::string_view word) {
    return any_word(list, separator, [&](std::string_view one) { return one == word; });
}

// "--model"; a row without a long name has its only one.
constexpr std::string_view long_name(const OptionRow & row) {
    std::string_view found = row.names;
    any_word(row.names, ',', [&](std::string_view name) {
        found = name;
        return name.starts_with("--");
    });
    return found;
}

// The choices that completion offers for the row's value.
Words choices_of(const OptionRow & row);

// Lists that choices come from.
void add_once(Words & words, std::string_view word);
Words policy_words();
Words policies_or_all();
Words demo_tasks();

}  // namespace pith::app
