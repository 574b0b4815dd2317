// inspect_dump.h - `pith inspect --dump`: what a policy may look at, as a file of arrays.
#pragma once

#include <string>

#include "app/inspect/inspect_input.h"
#include "pith/model.h"
#include "pith/text.h"

namespace pith::app {

struct DumpFlags {
    std::string path;  // empty: nothing is dumped
    int n_queries = 32;

    void add_to(CLI::App & command);
    // others: whether flags are given that look at policies or gates.   Errors: kInvalidArgument.
    Status check(const InspectInput & input, bool others) const;
};

// The exit code; says what the file holds.
int inspect_dump_command(const DumpFlags & flags, const InspectInput & input, int chunk, int n_threads, const Model & model,
                         const Tokenizer & tokenizer);

}  // namespace pith::app
