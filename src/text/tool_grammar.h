// tool_grammar.h - a grammar whose texts are calls of given functions, as one model writes them. Stage: text.
// Threads: pure function.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/reasoning.h"
#include "text/tool_calls.h"

namespace pith {

struct ToolFunction {
    std::string name;
    std::string parameters;  // JSON schema of its arguments; empty: any object
    bool strict = false;     // what of a schema cannot be followed is an error; else it is left out
};

// At least one call of one of the functions, exactly one where only_one; a thought may stand in front.
// notes: where there are any, a line is added for whatever of a schema was left out.
// Errors: kInvalidArgument: a strict schema that cannot be followed: names the function.
Result<std::string> tool_grammar(ToolForm form, std::span<const ToolFunction> functions, bool only_one,
                                 const ReasoningMarks & reasoning, std::vector<std::string> * notes = nullptr);

// A grammar's texts, a thought in front of them where the model has one: whatever it thinks, as with calls.
// Errors: none that a mark there is would make.
Result<std::string> grammar_behind_thought(std::string_view grammar, const ReasoningMarks & reasoning);

}  // namespace pith
