// prompt_test.cpp - the border between context and question: nothing is lost, doubled or tokenised differently at it.
#include "text/prompt.h"

#include <gtest/gtest.h>

#include "text/tiny_vocabulary.h"

namespace pith::prompt_test {
namespace {

using testing::TempFolder;
using testing::write_tiny;

Tokenizer load(const std::string & path) {
    auto tokenizer = Tokenizer::load(path);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    return std::move(*tokenizer);
}

TEST(Prompt, IsTokenForTokenTheUncompressedPrompt) {
    const TempFolder folder;
    const Tokenizer tokenizer = load(write_tiny(folder));
    const PromptRequest request{"", "The sky is blue.", {"\nWhat colour?", "\nWhy? It is", "?"}, false};
    const auto prompt = build_prompt(tokenizer, request);
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    const std::vector<std::string> wholes = {"The sky is blue.\nWhat colour?", "The sky is blue.\nWhy? It is",
                                             "The sky is blue.\n?"};
    for (size_t i = 0; i < wholes.size(); ++i) {
        EXPECT_EQ(prompt->whole(i), *tokenizer.encode(wholes[i], true, true)) << i;
        EXPECT_FALSE(prompt->questions[i].empty());
    }
    EXPECT_GE(prompt->context.size() + 2, tokenizer.encode(request.context, true, true)->size());
}

TEST(Prompt, SplitsTheChatTemplateBetweenContextAndQuestion) {
    const TempFolder folder;
    const Tokenizer tokenizer = load(write_tiny(folder, testing::kChatMl));
    const PromptRequest request{"Be brief.", "A long text.", {"Who?"}, true};
    const auto prompt = build_prompt(tokenizer, request);
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    const std::string text =
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nA long text.\n\nWho?<|im_end|>\n<|im_start|>assistant\n";
    EXPECT_EQ(prompt->whole(0), *tokenizer.encode(text, true, true));
    // What was compressed ends with the context, not with the template's end.
    const std::string head = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nA long text.";
    EXPECT_LE(prompt->context.size(), tokenizer.encode(head, true, true)->size());
    EXPECT_GE(prompt->context.size() + 2, tokenizer.encode(head, true, true)->size());
}

TEST(Prompt, KnowsWhereTheSystemPromptEnds) {
    const TempFolder folder;
    const Tokenizer tokenizer = load(write_tiny(folder, testing::kChatMl));
    for (const bool use_template : {true, false}) {
        const auto prompt = build_prompt(tokenizer, {"Be brief.", "A long text.", {"Who?"}, use_template});
        ASSERT_TRUE(prompt.ok());
        const std::string expected = use_template ? "<|im_start|>system\nBe brief." : "Be brief.";
        const std::vector<int32_t> whole = prompt->whole(0);
        EXPECT_EQ(tokenizer.decode({whole.data(), static_cast<size_t>(prompt->n_system)}), expected);
        EXPECT_LE(static_cast<size_t>(prompt->n_system), prompt->context.size());
    }
}

TEST(Prompt, KeepsMarkupAndMarkersInTheTextsAsTheyAre) {
    const TempFolder folder;
    const Tokenizer tokenizer = load(write_tiny(folder, testing::kChatMl));
    const std::string odd = "{{ x }} @@pith:question:7c1e@@ %s";
    const auto prompt = build_prompt(tokenizer, {"", odd, {"Who?"}, true});
    ASSERT_TRUE(prompt.ok());
    EXPECT_NE(tokenizer.decode(prompt->context).find(odd.substr(0, odd.size() - 2)), std::string::npos);
}

TEST(Prompt, RefusesToSayNothing) {
    const TempFolder folder;
    const Tokenizer tokenizer = load(write_tiny(folder));
    EXPECT_EQ(build_prompt(tokenizer, {"", "", {""}, false}).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(build_prompt(tokenizer, {"", "text", {}, false}).status().code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(build_prompt(tokenizer, {"", "text", {""}, false}).ok());
}

}  // namespace
}  // namespace pith::prompt_test
