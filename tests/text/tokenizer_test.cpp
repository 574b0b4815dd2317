// tokenizer_test.cpp - tokens to text and back, and vocabularies that cannot be used.
#include <gtest/gtest.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>

#include "pith/text.h"
#include "text/lone_characters.h"
#include "text/tiny_vocabulary.h"

namespace pith::tokenizer_test {
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

// A vocabulary as Gemma 4 has it. model: what the file says that it is.
std::string write_gemma4_vocabulary(const TempFolder & folder, const char * model) {
    std::vector<std::string> tokens = {"<pad>", "<eos>", "<bos>", "<unk>", "<|turn>"};
    std::vector<int32_t> types = {3, 3, 3, 2, 3};  // control, unknown
    for (int byte = 0; byte < 256; ++byte) {
        std::array<char, 8> name{};
        std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
        tokens.emplace_back(name.data());
        types.push_back(6);
    }
    for (const char * piece : {"\xE2\x96\x81", "a", "b", "ab"}) {
        tokens.emplace_back(piece);
        types.push_back(1);
    }
    std::vector<const char *> names;
    for (const std::string & token : tokens) { names.push_back(token.c_str()); }
    const std::vector<float> scores(tokens.size(), 0.0F);
    const char * merges[] = {"a b"};
    const std::string path = folder.file(std::string("gemma4-") + model + ".gguf");
    const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
    gguf_set_val_str(gguf.get(), "general.architecture", "gemma4");
    gguf_set_val_str(gguf.get(), "tokenizer.ggml.model", model);
    gguf_set_val_str(gguf.get(), "tokenizer.ggml.pre", "gemma4");
    gguf_set_arr_str(gguf.get(), "tokenizer.ggml.tokens", names.data(), names.size());
    gguf_set_arr_data(gguf.get(), "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
    gguf_set_arr_data(gguf.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
    gguf_set_arr_str(gguf.get(), "tokenizer.ggml.merges", merges, 1);
    gguf_set_val_u32(gguf.get(), "tokenizer.ggml.bos_token_id", 2);
    gguf_set_val_u32(gguf.get(), "tokenizer.ggml.eos_token_id", 1);
    gguf_set_val_u32(gguf.get(), "tokenizer.ggml.unknown_token_id", 3);
    gguf_set_val_u32(gguf.get(), "tokenizer.ggml.padding_token_id", 0);
    EXPECT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
    return path;
}

// Ollama's say that it is Llama's.
TEST(Tokenizer, ReadsGemma4sVocabularyWhateverItIsCalled) {
    const TempFolder folder;
    const auto own = Tokenizer::load(write_gemma4_vocabulary(folder, "gemma4"));
    const auto ollamas = Tokenizer::load(write_gemma4_vocabulary(folder, "llama"));
    ASSERT_TRUE(own.ok()) << own.status().message();
    ASSERT_TRUE(ollamas.ok()) << ollamas.status().message();
    const std::string text = "<|turn>ab ba";
    const auto tokens = own->encode(text, false, true);
    ASSERT_TRUE(tokens.ok()) << tokens.status().message();
    EXPECT_EQ(tokens->size(), 5U);
    EXPECT_EQ(*ollamas->encode(text, false, true), *tokens);
    EXPECT_EQ(ollamas->decode(*tokens), own->decode(*tokens));
}

// Ollama's call the architecture otherwise, and say no way of cutting texts: gpt-oss cuts numbers into three digits.
TEST(Tokenizer, ReadsGptOsssVocabularyWhateverItIsCalled) {
    const TempFolder folder;
    const auto vocabulary = [&](const char * architecture, const char * pre) {
        std::vector<std::string> tokens = {"<|endoftext|>"};
        std::vector<int32_t> types = {3};  // control
        for (const char * piece : {"1", "2", "3", "4", "12", "123", "1234"}) {
            tokens.emplace_back(piece);
            types.push_back(1);
        }
        std::vector<const char *> names;
        for (const std::string & token : tokens) { names.push_back(token.c_str()); }
        const char * merges[] = {"1 2", "12 3", "123 4"};
        const std::string path = folder.file(std::string(architecture) + ".gguf");
        const std::unique_ptr<gguf_context, decltype(&gguf_free)> gguf(gguf_init_empty(), &gguf_free);
        gguf_set_val_str(gguf.get(), "general.architecture", architecture);
        gguf_set_val_str(gguf.get(), "tokenizer.ggml.model", "gpt2");
        gguf_set_val_str(gguf.get(), "tokenizer.ggml.pre", pre);
        gguf_set_arr_str(gguf.get(), "tokenizer.ggml.tokens", names.data(), names.size());
        gguf_set_arr_data(gguf.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
        gguf_set_arr_str(gguf.get(), "tokenizer.ggml.merges", merges, std::size(merges));
        gguf_set_val_u32(gguf.get(), "tokenizer.ggml.eos_token_id", 0);
        EXPECT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
        return path;
    };
    for (const auto & [architecture, pre] : {std::pair{"gpt-oss", "gpt-4o"}, std::pair{"gptoss", "default"}}) {
        SCOPED_TRACE(architecture);
        const auto tokenizer = Tokenizer::load(vocabulary(architecture, pre));
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
        EXPECT_EQ(*tokenizer->encode("1234", false, false), (std::vector<int32_t>{6, 4}));  // not the one of four digits
    }
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

// libllama ends the process over a byte's token in a vocabulary of some kinds, over one without a newline in others, and makes
// up as many tokens as a key says where there is none.
TEST(Tokenizer, RefusesKindsOfVocabulariesThatNoModelHasWhichRuns) {
    const TempFolder folder;
    const std::string path = folder.file("kind.gguf");
    const auto load = [&](const char * kind) {
        testing::GgufEdit edit;
        edit.metadata = [kind](gguf_context * gguf) {
            gguf_set_val_str(gguf, "tokenizer.ggml.model", kind);
            gguf_set_val_u32(gguf, "llama.vocab_size", 4000000000U);
        };
        EXPECT_TRUE(testing::edit_gguf(write_tiny(folder), path, edit));
        return Tokenizer::load(path).status();
    };
    for (const std::string kind : {"bert", "t5", "rwkv", "plamo2", "hybriddna", "whitespace", "of nobody", ""}) {
        const Status status = load(kind.c_str());
        EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << kind;
        EXPECT_NE(status.message().find("is of the kind '" + kind + "'; llama, gpt2, gemma4 are read"), std::string::npos)
            << status.message();
    }
    for (const char * kind : {"none", "no_vocab"}) {
        const Status status = load(kind);
        EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << kind;
        EXPECT_NE(status.message().find("has no vocabulary"), std::string::npos) << status.message();
    }
}

// As libllama makes them all up into pieces when it loads them; of the kinds that are read none ends the process.
TEST(Tokenizer, ReadsOrRefusesTokensOfEveryTypeInEveryKind) {
    const TempFolder folder;
    const std::string path = folder.file("types.gguf");
    for (const char * kind : {"llama", "gpt2", "gemma4"}) {
        for (int32_t type = -1; type <= 8; ++type) {
            SCOPED_TRACE(std::string(kind) + ", all of type " + std::to_string(type));
            testing::GgufEdit edit;
            edit.metadata = [&](gguf_context * gguf) {
                const auto n = gguf_get_arr_n(gguf, gguf_find_key(gguf, "tokenizer.ggml.tokens"));
                const std::vector<int32_t> types(n, type);
                const char * merges[] = {"a b", "", " ", "ab", "a b c"};
                gguf_set_val_str(gguf, "tokenizer.ggml.model", kind);
                gguf_set_val_str(gguf, "tokenizer.ggml.pre", "default");
                gguf_set_arr_str(gguf, "tokenizer.ggml.merges", merges, std::size(merges));
                gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), n);
            };
            ASSERT_TRUE(testing::edit_gguf(write_tiny(folder), path, edit));
            const auto tokenizer = Tokenizer::load(path);
            if (!tokenizer.ok()) {
                EXPECT_GT(tokenizer.status().message().size(), 8U);
                continue;
            }
            const auto tokens = tokenizer->encode("It was\n1859: <s> \xE2\x82\xAC", true, true);
            if (tokens.ok()) { tokenizer->decode(*tokens); }
            for (int32_t id = -1; id <= tokenizer->n_vocab(); ++id) { tokenizer->piece(id, true); }
        }
    }
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
}  // namespace pith::tokenizer_test
