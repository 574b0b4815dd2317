// sample_prompt_test.cpp - whatever the borders, the tokens are those of the whole prompt.
#include "eval/sample_prompt.h"

#include <gtest/gtest.h>

#include "engine/tiny_model.h"
#include "model/gguf_edit.h"

namespace pith::sample_prompt_test {
namespace {

using benchmarks::Sample;
using benchmarks::TooLong;
using benchmarks::Turn;

using Tokens = std::vector<int32_t>;

constexpr const char * kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// A tiny model's tokeniser, without and with a chat template.
const Tokenizer & tokenizer(bool chat) {
    static const auto load = [](bool with_template) {
        const std::string plain = testing::scratch_file("plain.gguf").string();
        const std::string path = testing::scratch_file("chat.gguf").string();
        EXPECT_TRUE(write_random_model({}, plain).ok());
        testing::GgufEdit edit;
        edit.metadata = [](gguf_context * file) { gguf_set_val_str(file, "tokenizer.chat_template", kChatMl); };
        EXPECT_TRUE(testing::edit_gguf(plain, path, edit));
        return std::move(*Tokenizer::load(with_template ? path : plain));
    };
    static const Tokenizer without = load(false);
    static const Tokenizer with = load(true);
    return chat ? with : without;
}

Turn make_turn(std::string question, std::string prefix, int n_new = 8) {
    Turn turn;
    turn.question = std::move(question);
    turn.answer_prefix = std::move(prefix);
    turn.max_new_tokens = n_new;
    return turn;
}

Tokens operator+(Tokens a, const Tokens & b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Tokens encode(const std::string & text, bool chat = false) {
    return *tokenizer(chat).encode(text, true, true);
}

TEST(SamplePrompt, JoinsItsPiecesAsTheyAre) {
    const Sample sample{"s", "the of and the ", {make_turn("to in was", " he she"), make_turn("and?", "")}, {}, {}};
    const auto tokens = tokenise_sample(tokenizer(false), sample, {});
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    ASSERT_EQ(tokens->turns.size(), 2U);
    EXPECT_FALSE(tokens->dialogue);
    EXPECT_EQ(tokens->context + tokens->turns[0].question + tokens->turns[0].prefix, encode("the of and the to in was he she"));
    EXPECT_EQ(tokens->context + tokens->turns[1].question, encode("the of and the and?"));
    EXPECT_TRUE(tokens->turns[1].prefix.empty());
    EXPECT_FALSE(tokens->turns[0].prefix.empty());
}

TEST(SamplePrompt, TheTemplateGoesAroundContextAndQuestionAndThePrefixBehindIt) {
    const Sample sample{"s", "the of and", {make_turn(" to in?", "he")}, {}, {}};
    PromptRules rules;
    rules.chat = true;
    const auto tokens = tokenise_sample(tokenizer(true), sample, rules);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    const Tokens whole = encode("<|im_start|>user\nthe of and to in?<|im_end|>\n<|im_start|>assistant\nhe", true);
    EXPECT_EQ(tokens->context + tokens->turns[0].question + tokens->turns[0].prefix, whole);
    EXPECT_EQ(tokens->context + tokens->turns[0].question,
              encode("<|im_start|>user\nthe of and to in?<|im_end|>\n<|im_start|>assistant\n", true));
    EXPECT_EQ(*prompt_overhead(tokenizer(true), true),
              static_cast<int>(encode("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n", true).size()));
}

// LongBench's authors put "Answer:" into the prompt that the template goes around.
TEST(SamplePrompt, APrefixThatIsAskedEndsTheUsersPartAndIsCompressedWithIt) {
    const Sample sample{"s", "the of and", {make_turn(" to in?", " he")}, {}, {}};
    PromptRules rules;
    rules.chat = true;
    rules.prefix_asked = true;
    const auto tokens = tokenise_sample(tokenizer(true), sample, rules);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_EQ(tokens->context + tokens->turns[0].question,
              encode("<|im_start|>user\nthe of and to in? he<|im_end|>\n<|im_start|>assistant\n", true));
    EXPECT_TRUE(tokens->turns[0].prefix.empty());
    EXPECT_EQ(tokens->context, encode("<|im_start|>user\nthe of and", true));
}

TEST(SamplePrompt, ADialogueIsOneConversationOfTheTemplate) {
    Sample sample{"s", "the of and", {make_turn(" to in?", ""), make_turn("was he?", "")}, {}, {}};
    sample.turns[0].follow_up = "she";
    PromptRules rules;
    rules.chat = true;
    const auto tokens = tokenise_sample(tokenizer(true), sample, rules);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    ASSERT_TRUE(tokens->dialogue);
    const Tokens whole = tokens->context + tokens->turns[0].question + tokens->turns[0].prefix + tokens->turns[0].follow_up +
                         tokens->turns[1].question + tokens->turns[1].prefix;
    EXPECT_EQ(tokenizer(true).decode(whole),
              tokenizer(true).decode(encode("<|im_start|>user\nthe of and to in?<|im_end|>\n<|im_start|>assistant\n"
                                            "she<|im_end|>\n<|im_start|>user\nwas he?<|im_end|>\n<|im_start|>assistant\n",
                                            true)));
}

TEST(SamplePrompt, TheMiddleGoesWhenThePromptIsTooLong) {
    std::string context;
    for (int i = 0; i < 300; ++i) { context += std::to_string(i) + " "; }
    const Sample sample{"s", context, {make_turn("to in?", " he")}, {}, {}};
    const Tokens all = *tokenizer(false).encode(context, false, false);
    const Tokens rest = *tokenizer(false).encode("to in? he", false, false);
    PromptRules rules;
    rules.too_long = TooLong::kMiddle;
    rules.n_middle = 100;
    const auto tokens = tokenise_sample(tokenizer(false), sample, rules);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_EQ(tokens->n_cut, static_cast<int>(all.size() + rest.size()) - 100);
    const std::string text = tokenizer(false).decode(tokens->context + tokens->turns[0].question + tokens->turns[0].prefix);
    const std::string front = tokenizer(false).decode(std::span(all).first(50));
    const std::string back = tokenizer(false).decode(std::span(all).last(50 - rest.size()));
    EXPECT_NE(text.find(front + back), std::string::npos) << text;
    EXPECT_NE(text.find("to in? he"), std::string::npos);
    rules.n_middle = 100000;
    EXPECT_EQ(tokenise_sample(tokenizer(false), sample, rules)->n_cut, 0);
}

TEST(SamplePrompt, ACutThroughACharacterLeavesNone) {
    std::string context;
    for (int i = 0; i < 100; ++i) { context += "\xe2\x82\xac\xe4\xb8\xad"; }  // of three bytes each: three byte tokens here
    for (int limit = 40; limit < 44; ++limit) {
        const Sample sample{"s", context, {make_turn(" to?", "")}, {}, {}};
        PromptRules rules;
        rules.too_long = TooLong::kMiddle;
        rules.n_middle = limit;
        const auto tokens = tokenise_sample(tokenizer(false), sample, rules);
        ASSERT_TRUE(tokens.ok()) << tokens.status().message();
        EXPECT_GT(tokens->n_cut, 0);
    }
}

TEST(SamplePrompt, ChoicesFollowWhatTheyShare) {
    Sample sample{"s", "the of ", {make_turn("and", "", 0)}, {}, {}};
    sample.turns[0].choices = {" to in", " was", " he she the"};
    const auto tokens = tokenise_sample(tokenizer(false), sample, {});
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    const TurnTokens & turn = tokens->turns[0];
    ASSERT_EQ(turn.choices.size(), 3U);
    for (size_t c = 0; c < 3; ++c) {
        EXPECT_EQ(tokens->context + turn.question + turn.prefix + turn.choices[c],
                  encode("the of and" + sample.turns[0].choices[c]));
        EXPECT_FALSE(turn.choices[c].empty());
    }
}

TEST(SamplePrompt, WithoutAContextTheQuestionIsAllThereIs) {
    const Sample sample{"s", "", {make_turn("the of and", " to")}, {}, {}};
    const auto tokens = tokenise_sample(tokenizer(false), sample, {});
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_TRUE(tokens->context.empty());
    EXPECT_EQ(tokens->turns[0].question + tokens->turns[0].prefix, encode("the of and to"));
}

TEST(SamplePrompt, WhatTheModelCannotTakeIsSaid) {
    const Sample sample{"long one", "the of and", {make_turn("to", "", 50)}, {}, {}};
    PromptRules rules;
    rules.n_ctx = 40;
    const auto tokens = tokenise_sample(tokenizer(false), sample, rules);
    ASSERT_TRUE(tokens.ok());
    EXPECT_NE(tokens->too_long.find("'long one' needs"), std::string::npos) << tokens->too_long;
    EXPECT_NE(tokens->too_long.find("40"), std::string::npos);
    const Sample bad{"bad", "\xff", {make_turn("to", "")}, {}, {}};
    EXPECT_EQ(tokenise_sample(tokenizer(false), bad, {}).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace pith::sample_prompt_test
