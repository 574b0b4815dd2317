// tools.h - which functions a request offers, and whether one must be called. Stage: serve.
// Threads: pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "serve/shapes/fields.h"
#include "text/tool_grammar.h"

namespace pith::serve {

struct ToolsRequest {
    std::string json;  // as ChatOptions::tools; empty: none
    std::vector<ToolFunction> functions;
    bool must_call = false;
    bool only_one = false;  // calls in one answer

    bool any() const { return !functions.empty(); }
    // The list of functions that may be called becomes this one alone, which must be. Errors: kInvalidArgument: not offered.
    Status choose(const std::string & name);
    void clear() { *this = {}; }
};

// One function, as OpenAI and Anthropic have them in common. place: "tools[0]". Errors: kInvalidArgument.
Status add_tool(const std::string & place, const std::string & name, const std::string & description, const Json * parameters,
                bool strict, ToolsRequest & tools);

// Calls `read` for each of 'tools', where there is that field. Errors: kInvalidArgument: no list, or too many; those of `read`.
Status each_tool(Fields & fields, const std::function<Status(const Json & tool, const std::string & place)> & read);

// tools, tool_choice, parallel_tool_calls, as OpenAI has them. Errors: kInvalidArgument; kUnsupported: a tool of another type.
Status read_tools(Fields & fields, ToolsRequest & tools);

// The calls of an earlier answer: a list of {"id", "type", "function": {"name", "arguments"}}. Errors: kInvalidArgument.
Status check_tool_calls(const Json & calls, const std::string & place);

}  // namespace pith::serve
