// tool_calls.h - how a model is shown functions, and how it writes that it calls one. Stage: text.
//
// How a model writes a call is told by its chat template. One whose template knows no functions, or has a form that is not
// known here, is shown them in its system prompt, and asked to write calls as JSON in a fenced block.
// Threads: any. Cost: linear.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"

namespace pith {

enum class ToolForm {
    kTagged,      // <tool_call>{"name": …, "arguments": {…}}</tool_call>, once more for each: Hermes, Qwen 2.5 and 3
    kList,        // [TOOL_CALLS][{"name": …, "arguments": {…}}, …]: Mistral
    kNamed,       // [TOOL_CALLS]name[ARGS]{…}: Mistral since 2025
    kBare,        // {"name": …, "parameters": {…}}, perhaps behind <|python_tag|>: Llama 3
    kHarmony,     // <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>: gpt-oss
    kPairs,       // <tool_call>name<arg_key>…</arg_key><arg_value>…</arg_value>…</tool_call>: GLM since 4.5
    kParameters,  // <tool_call><function=name><parameter=key>…</parameter>…</function></tool_call>: Qwen3-Coder
    kFenced,      // ```tool_code and a JSON object: Gemma 3, and every other model
};

// chat_template: Jinja.
ToolForm tool_form(std::string_view chat_template);
// Whether arguments stand one by one between tags of their own (tagged_call.h), and not in a JSON object.
inline bool has_tagged_arguments(ToolForm form) {
    return form == ToolForm::kPairs || form == ToolForm::kParameters;
}
// Its parameters that are texts, written as they are where others are JSON, and whether null may stand there, too. By function.
using TextsOfFunction = std::map<std::string, bool>;
using TextParameters = std::map<std::string, TextsOfFunction>;

// Whether the template itself shows the model its functions.
bool shows_tools(ToolForm form);
// The function's arguments, in the object of a call.
std::string_view arguments_key(ToolForm form);

// For a template that does not: the functions in the system prompt, earlier calls and their results as text. A user's message
// holds the results, so that templates which want user and assistant in turns go on.
// tools: a JSON array, as ChatOptions::tools. Errors: kInvalidArgument: JSON that cannot be read.
Result<std::vector<ChatMessage>> with_tools_as_text(std::span<const ChatMessage> messages, const std::string & tools);

}  // namespace pith
