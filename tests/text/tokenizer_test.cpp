// tokenizer_test.cpp - tokens to text and back, and vocabularies that cannot be used.
#include <gtest/gtest.h>

#include <fstream>

#include "pith/text.h"
#include "text/tiny_vocabulary.h"

namespace pith {
namespace {

using testing::TempFolder;
using testing::write_tiny;

TEST(Tokenizer, GivesBackTheTextItWasGiven) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    for (const std::string text : {"Hello, world.", "two  spaces\nand a line", "größer, 漢字, \xF0\x9F\x98\x80", "x"}) {
        const auto tokens = tokenizer->encode(text, false, false);
        ASSERT_TRUE(tokens.ok()) << tokens.status().message();
        EXPECT_EQ(tokenizer->decode(*tokens), text);
    }
}

TEST(Tokenizer, PutsTheBeginTokenInFrontWhenAsked) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(tokenizer.ok());
    const auto with = tokenizer->encode("abc", true, false);
    auto without = tokenizer->encode("abc", false, false);
    ASSERT_TRUE(with.ok() && without.ok());
    without->insert(without->begin(), tokenizer->bos());
    EXPECT_EQ(*with, *without);
}

TEST(Tokenizer, NamesTheByteThatIsNoUtf8) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(tokenizer.ok());
    const auto tokens = tokenizer->encode("fine until \xFF here", true, true);
    ASSERT_FALSE(tokens.ok());
    EXPECT_EQ(tokens.status().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(tokens.status().message().find("byte 11 is 0xFF"), std::string::npos) << tokens.status().message();
}

TEST(Tokenizer, RefusesAVocabularyWithoutByteTokens) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder, "", false));
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.status().code(), ErrorCode::kUnsupported);
    EXPECT_NE(tokenizer.status().message().find("byte token"), std::string::npos) << tokenizer.status().message();
}

TEST(Tokenizer, RefusesWhatIsNoModel) {
    const TempFolder folder;
    EXPECT_EQ(Tokenizer::load(folder.file("none.gguf")).status().code(), ErrorCode::kNotFound);
    std::ofstream(folder.file("text.gguf")) << "Once upon a time";
    EXPECT_EQ(Tokenizer::load(folder.file("text.gguf")).status().code(), ErrorCode::kBadFile);
    testing::write_file(folder.file("cut.gguf"), [&] {
        auto bytes = testing::read_file(write_tiny(folder));
        bytes.resize(200);
        return bytes;
    }());
    EXPECT_EQ(Tokenizer::load(folder.file("cut.gguf")).status().code(), ErrorCode::kBadFile);
}

TEST(Tokenizer, AppliesTheModelsChatTemplate) {
    const TempFolder folder;
    const auto tokenizer = Tokenizer::load(write_tiny(folder, testing::kChatMl));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
    ASSERT_TRUE(tokenizer->has_chat_template());
    const std::vector<ChatMessage> chat = {{"system", "Be brief."}, {"user", "Hello"}};
    const auto text = tokenizer->apply_chat_template(chat, true);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(*text, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Tokenizer, SaysWhenATemplateIsMissingOrUnknown) {
    const TempFolder folder;
    const std::vector<ChatMessage> chat = {{"user", "Hello"}};
    const auto plain = Tokenizer::load(write_tiny(folder));
    ASSERT_TRUE(plain.ok());
    EXPECT_FALSE(plain->has_chat_template());
    EXPECT_EQ(plain->apply_chat_template(chat, true).status().code(), ErrorCode::kUnsupported);
    const auto odd = Tokenizer::load(write_tiny(folder, "{{ nothing that anyone knows }}"));
    ASSERT_TRUE(odd.ok());
    EXPECT_EQ(odd->apply_chat_template(chat, true).status().code(), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace pith
