// tool_grammar.h - a grammar whose texts are calls of given functions, as one model writes them. Stage: text.
// Threads: pure function.
#pragma once

#include <span>
#include <string>

#include "text/reasoning.h"
#include "text/tool_calls.h"

namespace pith {

struct ToolFunction {
    std::string name;
    std::string parameters;  // JSON schema of its arguments; empty: any object
    bool strict = false;     // a schema that is not understood is an error; else any object is let through
};

// At least one call of one of the functions, exactly one where only_one; a thought may stand in front.
// Errors: kInvalidArgument: a strict schema that is not understood: names the function.
Result<std::string> tool_grammar(ToolForm form, std::span<const ToolFunction> functions, bool only_one,
                                 const ReasoningMarks & reasoning);

}  // namespace pith
