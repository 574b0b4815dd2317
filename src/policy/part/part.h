// part.h - how a scorer, refiner, allocator or selector presents itself to its registry. Stage: set-up.
// Pure C++: no ggml, no I/O.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "policy/part/options.h"

namespace pith {

// One registered part. Every field has static lifetime. `make` gets values its table and `check` have validated, so it cannot
// fail.
template <class Part>
struct PartInfo {
    std::string_view name;
    std::string_view help;  // one line
    // A scorer's or refiner's score of entry j, an allocator's weight of a lane, what a selector keeps: a cell of the tables of
    // docs/policies.md, which a test compares with it.
    std::string_view formula;
    std::string_view paper;  // title; empty where there is none
    std::span<const OptionSpec> options;
    std::shared_ptr<const Part> (*make)(const Options & options) = nullptr;
    // What is wrong with values that are right one by one; empty: nothing. Null: any go together.
    std::string (*check)(const Options & options) = nullptr;
};

}  // namespace pith
