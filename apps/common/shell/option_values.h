// option_values.h - what can stand where an option wants a value, for completion. Names come from the program's own lists.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

struct OptionValues {
    ValueKind kind = ValueKind::kText;
    Words choices;
};

// An option whose value is no file.
struct OptionRow {
    std::string_view command;  // empty: of any that no row above names
    std::string_view option;   // "--policy"; a positional's placeholder
    ValueKind kind;
    std::function<Words()> choices = [] { return Words(); };
};

// A program's own rows, and behind them those of options that more than one command has.
using OptionTable = std::vector<OptionRow>;
OptionTable with_common_options(OptionTable own);

// Of option `name` ("--policy"; a positional's placeholder) of `command` ("pith run"). A text that is named nowhere is a file.
OptionValues values_of(const OptionTable & table, const std::string & command, const std::string & name,
                       const std::string & placeholder);

// Lists for tables.
std::function<Words()> these(Words words);
void add_once(Words & words, std::string_view word);
Words policies_or_all();
Words demo_tasks();

}  // namespace pith::app
