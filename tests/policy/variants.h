// variants.h - every registered part with every option at its interesting values, taken from the registry's tables.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "policy/part/options.h"

namespace pith::test {

// A part as the tests write it: its name and the value of every option, defaults included.
struct PartVariant {
    std::string name;  // empty: left out
    std::map<std::string, std::string> options;

    std::string text() const;  // "name:key=value…"
    double number(const std::string & key) const { return std::stod(options.at(key)); }
    // The window that a scorer beside this part must have: the part's own, where it names one.
    std::string window_beside(const std::string & otherwise) const {
        const auto own = options.find("window");
        return own == options.end() || own->second == "same" ? otherwise : own->second;
    }
    bool is(const std::string & key, const std::string & value) const { return options.at(key) == value; }
};

// The defaults; each word of each option; the smallest number of each, and the largest of each real one.
std::vector<PartVariant> variants_of(std::string_view name, std::span<const OptionSpec> table);

}  // namespace pith::test
