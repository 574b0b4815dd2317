// tokenizer_test.cpp - tokens to text and back, and vocabularies that cannot be used.
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>

#include "pith/text.h"
#include "text/lone_characters.h"
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

// libllama would append the end token, and put a second begin token in front of a template's own.
TEST(Tokenizer, EndsNoPromptAndBeginsItOnce) {
    const TempFolder folder;
    testing::GgufEdit edit;
    edit.metadata = [](gguf_context * gguf) { gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", true); };
    ASSERT_TRUE(testing::edit_gguf(write_tiny(folder), folder.file("eos.gguf"), edit));
    const auto plain = Tokenizer::load(write_tiny(folder));
    const auto ends = Tokenizer::load(folder.file("eos.gguf"));
    ASSERT_TRUE(plain.ok() && ends.ok());
    std::string emoji;
    for (int i = 0; i < 5000; ++i) { emoji += "\xF0\x9F\x98\x80"; }  // so long that it is tokenised in parts
    for (const std::string & text : {std::string("<s>Hello"), std::string("Hello"), std::string(), emoji}) {
        const auto tokens = ends->encode(text, true, true);
        ASSERT_TRUE(tokens.ok());
        EXPECT_EQ(*tokens, *plain->encode(text, true, true));
        EXPECT_EQ(std::ranges::count(*tokens, ends->bos()), 1);
        EXPECT_EQ(std::ranges::count(*tokens, ends->eos()), 0);
    }
    EXPECT_EQ(plain->encode("<s>Hello", true, true)->size(), plain->encode("Hello", false, true)->size() + 1);
    EXPECT_EQ(plain->encode("Hello</s>", true, true)->back(), plain->eos());  // the text's own stays
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

// ggml's reader ends the process where the alignment is no number.
TEST(Tokenizer, LooksAtTheHeaderBeforeLibllamaDoes) {
    const TempFolder folder;
    testing::GgufEdit edit;
    edit.metadata = [](gguf_context * gguf) { gguf_set_val_str(gguf, "general.alignmenu", "thirty-two"); };
    ASSERT_TRUE(testing::edit_gguf(write_tiny(folder), folder.file("odd.gguf"), edit));
    std::vector<char> bytes = testing::read_file(folder.file("odd.gguf"));
    const std::string key = "general.alignmenu";
    *(std::search(bytes.begin(), bytes.end(), key.begin(), key.end()) + static_cast<std::ptrdiff_t>(key.size()) - 1) = 't';
    testing::write_file(folder.file("odd.gguf"), bytes);
    const Status status = Tokenizer::load(folder.file("odd.gguf")).status();
    EXPECT_EQ(status.code(), ErrorCode::kBadFile);
    EXPECT_NE(status.message().find("general.alignment"), std::string::npos) << status.message();
}

TEST(Tokenizer, RefusesAVocabularyThatHasATokenTwice) {
    const TempFolder folder;
    testing::GgufEdit edit;
    edit.metadata = [](gguf_context * gguf) {
        const int64_t key = gguf_find_key(gguf, "tokenizer.ggml.tokens");
        std::vector<std::string> texts;
        for (size_t i = 0; i < gguf_get_arr_n(gguf, key); ++i) { texts.emplace_back(gguf_get_arr_str(gguf, key, i)); }
        texts[300] = texts[290];
        std::vector<const char *> tokens;
        for (const std::string & text : texts) { tokens.push_back(text.c_str()); }
        gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", tokens.data(), tokens.size());
    };
    ASSERT_TRUE(testing::edit_gguf(write_tiny(folder), folder.file("twice.gguf"), edit));
    const Status status = Tokenizer::load(folder.file("twice.gguf")).status();
    EXPECT_EQ(status.code(), ErrorCode::kBadFile);
    EXPECT_NE(status.message().find("290 and as 300"), std::string::npos) << status.message();
}

// Long texts are cut at characters that the vocabulary does not have: the tokens are those of libllama for the whole.
TEST(Tokenizer, GivesALongTextTheTokensOfTheWhole) {
    const TempFolder folder;
    const std::string path = write_tiny(folder);
    const Tokenizer tokenizer = Tokenizer::load(path).value();
    llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(llama_model_load_from_file(path.c_str(), params),
                                                                          llama_model_free);
    const llama_vocab * vocab = llama_model_get_vocab(model.get());
    const std::vector<std::string> pieces = {"the river",
                                             " garden",
                                             " ",
                                             "  ",
                                             "\n",
                                             "\t",
                                             "<s>",
                                             "</s>",
                                             "<0x41>",
                                             "x",
                                             "Ä",
                                             "漢",
                                             "字",
                                             "\xF0\x9F\x98\x80",
                                             "\xE2\x96\x81",
                                             "\xC2\xA0",
                                             "\xE3\x80\x80",
                                             "é",
                                             "."};
    std::mt19937 random(7);
    for (int trial = 0; trial < 40; ++trial) {
        std::string text;
        const size_t n_bytes = trial < 4 ? 40 : 20000;
        // Some are nearly all words, some nearly all strange characters.
        const size_t n_kinds = trial % 3 == 0 ? pieces.size() : 1 + random() % pieces.size();
        while (text.size() < n_bytes) { text += pieces[(pieces.size() - 1 - random() % n_kinds + trial) % pieces.size()]; }
        for (const bool special : {false, true}) {
            std::vector<int32_t> whole(text.size() + 16);
            const int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), whole.data(),
                                             static_cast<int32_t>(whole.size()), special, special);
            ASSERT_GE(n, 0);
            whole.resize(static_cast<size_t>(n));
            if (special && n > 1 && whole[1] == whole[0]) { whole.erase(whole.begin()); }  // the text began with "<s>"
            EXPECT_EQ(tokenizer.encode(text, special, special).value(), whole) << trial << ", special: " << special;
        }
    }
    const LoneCharacters lone(vocab);
    EXPECT_EQ(lone.cut(std::string(100000, 'x')).size(), 1U);
    std::string emoji;
    for (int i = 0; i < 10000; ++i) { emoji += "\xF0\x9F\x98\x80"; }
    EXPECT_EQ(lone.cut(emoji).size(), 10U);
    EXPECT_EQ(lone.cut("").size(), 1U);
    // A blank is put behind a special token, so nothing is cut there.
    std::string after_special;
    for (int i = 0; i < 10000; ++i) { after_special += "<s>\xF0\x9F\x98\x80"; }
    EXPECT_EQ(lone.cut(after_special).size(), 1U);
    EXPECT_EQ(LoneCharacters().cut(emoji).size(), 1U);
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
