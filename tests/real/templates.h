// templates.h - conversations to render with a model's own chat template. What is expected of each is what Jinja's own
// implementation, Python's, makes of the template with Hugging Face's settings; written down in the tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pith/text.h"

namespace pith::testing {

inline constexpr const char * kWeatherTool =
    R"({"type": "function", "function": {"name": "weather", "description": "How the weather will be", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}}})";

inline const ChatMessage kWillItRain = {"user", "Will it rain?"};
inline const ChatMessage kBeBrief = {"system", "Be brief."};

inline void expect_rendered(const Tokenizer & tokenizer, const std::vector<ChatMessage> & messages, bool with_tools,
                            const std::string & expected) {
    ChatOptions options;
    if (with_tools) { options.tools = "[" + std::string(kWeatherTool) + "]"; }
    const auto text = tokenizer.apply_chat_template(messages, options);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, expected);
    EXPECT_EQ(tokenizer.chat_template_problem(), "");  // it was the template itself that spoke
}

}  // namespace pith::testing
