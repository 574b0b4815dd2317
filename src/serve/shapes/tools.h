// tools.h - which functions a request offers, and whether one must be called. Stage: serve.
// Threads: pure functions.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "serve/shapes/fields.h"
#include "text/tool_grammar.h"

namespace pith::serve {

// What a client calls a tool that the model knows as a function of another name, or as a function of one text.
struct ToolOrigin {
    std::string space;  // the group that it stands in; empty: none
    std::string name;
    bool takes_text = false;  // no arguments, but a text as it is
};
using ToolOrigins = std::map<std::string, ToolOrigin>;  // by the function's name; what is not there is a function as it is

struct ToolsRequest {
    std::string json;  // as ChatOptions::tools; empty: none
    std::vector<ToolFunction> functions;
    bool must_call = false;
    bool only_one = false;  // calls in one answer

    ToolOrigins origins;

    bool any() const { return !functions.empty(); }
    // The list of functions that may be called becomes this one alone, which must be. Errors: kInvalidArgument: not offered.
    Status choose(const std::string & name);
    // The model is shown all of them, and may call these alone.   place: the field that names them.
    Status allow(const std::vector<std::string> & names, std::string_view place);
    // One must be called. Errors: kInvalidArgument: there is none.
    Status require(std::string_view wish);
    void clear() { *this = {}; }
};

// One function, as OpenAI and Anthropic have them in common. place: "tools[0]". Errors: kInvalidArgument.
Status add_tool(const std::string & place, const std::string & name, const std::string & description, const Json * parameters,
                bool strict, ToolsRequest & tools);

// A tool that takes a text, which may have to keep to a grammar: the model knows it as a function of one text.
// format: {"type": "text"}, or {"type": "grammar", "syntax", "definition"}. Errors: kInvalidArgument.
Status add_text_tool(const std::string & place, const std::string & name, const std::string & description, const Json * format,
                     const ToolOrigin & origin, ToolsRequest & tools);
// A call of one, as arguments of that function; and the text in such arguments, or they themselves where there is none.
std::string arguments_of_text(const std::string & text);
std::string text_in_arguments(const std::string & arguments);
// The same of arguments that were cut: the text so far.
std::string text_begun_in_arguments(const std::string & arguments);

// The name by which the model knows a tool of a group.
std::string flat_name(const std::string & space, const std::string & name);

// Calls `read` for each of 'tools', where there is that field. Errors: kInvalidArgument: no list, or too many; those of `read`.
Status each_tool(Fields & fields, const std::function<Status(const Json & tool, const std::string & place)> & read);

// tool_choice, where it is "none", "auto" or "required". false: it is another thing. Errors: kInvalidArgument: none is offered.
Result<bool> read_choice_word(const Json & choice, ToolsRequest & tools);
// {"mode", "tools"} of the field `place`. name_of: of an entry of 'tools', place and all; none: it is left out.
// Errors: kInvalidArgument; those of `name_of`.
using NameOfTool = std::function<Result<std::optional<std::string>>(const Json & one, const std::string & place)>;
Status read_allowed_tools(Fields & fields, const std::string & place, const NameOfTool & name_of, ToolsRequest & tools);

// tools, tool_choice, parallel_tool_calls, as OpenAI has them. Errors: kInvalidArgument; kUnsupported: a tool of another type.
Status read_tools(Fields & fields, ToolsRequest & tools);

// The arguments of an earlier call: an object's JSON, or the text that the model wrote, which may have been cut short: a client
// sends it back with every turn that follows. Nothing, and a text without anything: {}.
// Errors: kInvalidArgument: neither a text nor an object; names the place.
Result<std::string> arguments_in(const Json * value, const std::string & place);

// The calls of an earlier answer, as ChatMessage::tool_calls: a list of {"id", "type", "function": {"name", "arguments"}},
// whose arguments hold a JSON object. Errors: kInvalidArgument: names the call.
Result<std::string> read_tool_calls(const Json & calls, const std::string & place);

}  // namespace pith::serve
