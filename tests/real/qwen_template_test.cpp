// qwen_template_test.cpp - conversations as Qwen2.5-Coder's own chat template has them, with functions and without.
#include "real/qwen.h"
#include "real/templates.h"

namespace pith::qwen_template_test {
namespace {

using testing::expect_rendered;
using testing::kBeBrief;
using testing::kWeatherTool;
using testing::kWillItRain;

// Behind the system prompt. The doubled braces are the template's own.
std::string tools_text() {
    return "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
           "signatures within <tools></tools> XML tags:\n<tools>\n" +
           std::string(kWeatherTool) +
           "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
           "<tool_call></tool_call> XML tags:\n<tool_call>\n{{\"name\": <function-name>, \"arguments\": <args-json-object>}}\n"
           "</tool_call><|im_end|>\n";
}
const std::string kSystem = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
const std::string kAsked = "<|im_start|>user\nWill it rain?<|im_end|>\n";
const std::string kAnswer = "<|im_start|>assistant\n";

class QwenTemplate : public testing::Qwen {};

TEST_F(QwenTemplate, HasASystemPromptOfItsOwnUnlessOneIsGiven) {
    expect_rendered(tokenizer(), {kWillItRain}, false, kSystem + "<|im_end|>\n" + kAsked + kAnswer);
    expect_rendered(tokenizer(), {kBeBrief, kWillItRain}, false,
                    "<|im_start|>system\nBe brief.<|im_end|>\n" + kAsked + kAnswer);
}

TEST_F(QwenTemplate, ShowsFunctionsBehindTheSystemPrompt) {
    expect_rendered(tokenizer(), {kWillItRain}, true, kSystem + tools_text() + kAsked + kAnswer);
    expect_rendered(tokenizer(), {kBeBrief, kWillItRain}, true,
                    "<|im_start|>system\nBe brief." + tools_text() + kAsked + kAnswer);
}

TEST_F(QwenTemplate, ShowsCallsAndTheirResults) {
    ChatMessage call = {"assistant", ""};
    call.tool_calls =
        R"([{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Elm\", \"days\": 3}"}}])";
    ChatMessage result = {"tool", "dry"};
    result.tool_call_id = "c1";
    expect_rendered(tokenizer(), {kWillItRain, call, result}, true,
                    kSystem + tools_text() + kAsked + kAnswer +
                        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Elm\", \"days\": 3}}\n</tool_call>"
                        "<|im_end|>\n<|im_start|>user\n<tool_response>\ndry\n</tool_response><|im_end|>\n" +
                        kAnswer);
}

TEST_F(QwenTemplate, KeepsTurnsAndTheirSpaces) {
    expect_rendered(
        tokenizer(), {kWillItRain, {"assistant", "No."}, {"user", "  Sure? "}}, false,
        kSystem + "<|im_end|>\n" + kAsked + kAnswer + "No.<|im_end|>\n<|im_start|>user\n  Sure? <|im_end|>\n" + kAnswer);
}

}  // namespace
}  // namespace pith::qwen_template_test
