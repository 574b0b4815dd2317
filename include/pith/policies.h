// policies.h - the policies there are: what `pith policies` prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pith/status.h"

namespace pith {

struct OptionInfo {
    std::string name;
    std::string default_value;
    std::string help;  // one line: meaning, range
};

struct PolicyInfo {
    std::string name;
    std::string kind;     // "choice" (`auto` alone), "admission", "scorer", "refiner", "allocator", "selector" or "alias"
    std::string help;     // one line
    std::string formula;  // of the score or weight, or what a selector keeps, in the notation of docs/policies.md
    std::string needs;    // what must be recorded about attention for it: "window, values"; empty: nothing
    std::string paper;    // title, or the public code it comes from; empty where there is none
    std::string meaning;  // of an alias: what it stands for
    std::vector<OptionInfo> options;
};

// `auto`, then all registered parts and aliases, in the order of their registries.
std::vector<PolicyInfo> list_policies();

// Ok when `text` is a policy, or `auto`; else the error a user should see.
Status check_policy(std::string_view text);

}  // namespace pith
