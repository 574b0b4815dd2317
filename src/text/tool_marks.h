// tool_marks.h - what models write around their calls. Stage: text.
#pragma once

#include <string_view>

namespace pith::tool_marks {

// White space between marks is nothing.
inline constexpr std::string_view kBlanks = " \t\r\n";
inline bool is_blank(char c) {
    return kBlanks.find(c) != std::string_view::npos;
}

// Hermes, Qwen, GLM: around a call.
inline constexpr std::string_view kTagOpen = "<tool_call>";
inline constexpr std::string_view kTagClose = "</tool_call>";
// GLM, in a call: a key and its value.
inline constexpr std::string_view kKeyOpen = "<arg_key>";
inline constexpr std::string_view kKeyClose = "</arg_key>";
inline constexpr std::string_view kValueOpen = "<arg_value>";
inline constexpr std::string_view kValueClose = "</arg_value>";
// Qwen3-Coder, in a call: the name follows, and '>'.
inline constexpr std::string_view kFunctionOpen = "<function=";
inline constexpr std::string_view kFunctionClose = "</function>";
inline constexpr std::string_view kParameterOpen = "<parameter=";
inline constexpr std::string_view kParameterClose = "</parameter>";
// Mistral.
inline constexpr std::string_view kListOpen = "[TOOL_CALLS]";
inline constexpr std::string_view kArguments = "[ARGS]";
inline constexpr std::string_view kCallId = "[CALL_ID]";
// Llama 3.
inline constexpr std::string_view kPython = "<|python_tag|>";
// Gemma 3, and models that were never taught a form.
inline constexpr std::string_view kFence = "```tool_code";
inline constexpr std::string_view kFenceEnd = "```";
// gpt-oss.
inline constexpr std::string_view kCommentary = "<|channel|>commentary";
inline constexpr std::string_view kAnalysisTo = "<|channel|>analysis ";  // a call where it thinks; a thought has no blank there
inline constexpr std::string_view kRecipient = "to=functions.";
inline constexpr std::string_view kMessage = "<|message|>";
inline constexpr std::string_view kCall = "<|call|>";
inline constexpr std::string_view kEnd = "<|end|>";
inline constexpr std::string_view kAssistant = "<|start|>assistant";
inline constexpr std::string_view kHarmonyNames[] = {"<|start|>", kEnd, kMessage, "<|channel|>", "<|constrain|>", kCall};

// What models write around calls in a form that is not their template's. In front:
inline constexpr std::string_view kLooseOpens[] = {
    kTagOpen, "<tool_calls>", "<tools>", "<function_call>", "<functioncall>", "<response>",
    "<json>", "<JSON>",       "<xml>",   "<|tool_call|>",   kPython,          kListOpen,
};
// Behind, where some write the opening mark once more:
inline constexpr std::string_view kLooseCloses[] = {
    kTagClose, "</tool_calls>", "</tools>", "</function_call>", "</functioncall>", "</response>",
    "</json>", "</JSON>",       "</xml>",   "<|/tool_call|>",   kFunctionClose,
};
// What may follow <function=name>.
inline constexpr std::string_view kTaggedBody[] = {kParameterOpen, kFunctionClose};

}  // namespace pith::tool_marks
