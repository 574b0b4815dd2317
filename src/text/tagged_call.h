// tagged_call.h - a call whose arguments stand each between tags of its own, as text: GLM's and Qwen3-Coder's. Stage: text.
//
// What is written there is the value itself where the function's schema says that it is a text, else JSON. So the schema is
// needed to read it.   Threads: pure functions. Cost: linear.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "text/tool_calls.h"

namespace pith {

struct TaggedCall {
    std::string name;
    std::string arguments;  // a JSON object
};

// What a model writes around the value of a key.
struct ArgumentText {
    std::string open;
    std::string close;
};
// REQUIRES: has_tagged_arguments(form).
ArgumentText argument_text(ToolForm form, const std::string & key);

// Whether this is one of the form's tags around keys and values.
bool is_argument_tag(ToolForm form, std::string_view name);

// Of what stands between <tool_call> and </tool_call>. Nothing: it is no call.
std::optional<TaggedCall> read_tagged_call(ToolForm form, std::string_view inside, const TextParameters & texts);

// The parameters that the schema of a function's arguments says are texts, or null. A schema that is no JSON object: none.
TextsOfFunction text_parameters(std::string_view schema);

}  // namespace pith
