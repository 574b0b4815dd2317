// bench_lists.h - flags of `pith bench` that take several values, and the columns that then tell rows apart.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "common/flags/engine_flags.h"
#include "engine/probe/bench.h"

namespace pith::app {

// What follows each flag, between commas or repeated, as in llama-bench; empty: nothing was given.
struct BenchListFlags {
    std::vector<int> prompts;
    std::vector<int> generates;
    std::vector<int> threads;
    std::vector<int> chunks;
    std::vector<std::string> types_k;
    std::vector<std::string> types_v;
    std::vector<std::string> budgets;

    // In place of those of the session's flags that take one value.   REQUIRES: SessionFlags::add_to() came before.
    void add_to(CLI::App & command);
    // mode: the flag that asks for something else than speed; several values are for some of these alone.
    // Errors: kInvalidArgument: names the flag.
    Status check(const std::string & mode) const;
    // The first of each, by which the others are checked and which measurements of one value take.
    void give_first(int & n_prompt, int & n_generate, SessionFlags & session) const;
    // Errors: kInvalidArgument: a type or a budget that there is not.
    Result<BenchLists> read() const;
};

// "512, 4096"; of an empty list the one value.
std::string numbers_text(const std::vector<int> & list, int one);

// A column for each list of several values.
class VariedColumns {
public:
    explicit VariedColumns(const BenchLists & lists);
    std::string header() const;
    std::string cells(const BenchRow & row) const;

private:
    struct Column {
        std::string name;
        std::function<std::string(const BenchRow & row)> text;
    };
    std::vector<Column> columns_;
};

}  // namespace pith::app
