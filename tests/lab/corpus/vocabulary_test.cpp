// The reference vocabulary, end to end: SentencePiece trains it, libllama reads it, both cut the generator's text alike.
#include "train/data/vocabulary.h"

#include <gtest/gtest.h>
#include <llama.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "corpus/corpus.h"
#include "tasks/words.h"

namespace pith::train::vocabulary_test {
namespace {

class VocabularyTest : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        if (!can_train_vocabulary()) { return; }
        llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
        auto trained = train_vocabulary(corpus::vocabulary_sentences());
        ASSERT_TRUE(trained.ok()) << trained.status().message();
        vocabulary_ = std::make_unique<Vocabulary>(std::move(*trained));
        const auto path = std::filesystem::temp_directory_path() / ("pith_vocabulary_" + std::to_string(::getpid()) + ".gguf");
        ASSERT_TRUE(write_vocabulary(path.string(), *vocabulary_).ok());
        auto params = llama_model_default_params();
        params.vocab_only = true;
        model_ = llama_model_load_from_file(path.string().c_str(), params);
        std::filesystem::remove(path);
        ASSERT_NE(model_, nullptr);
    }
    static void TearDownTestSuite() {
        if (model_ != nullptr) { llama_model_free(model_); }
        model_ = nullptr;
        vocabulary_.reset();
    }
    void SetUp() override {
        if (!can_train_vocabulary()) { GTEST_SKIP() << "built without SentencePiece"; }
    }

    static std::vector<int32_t> encode(std::string_view text) {
        std::vector<int32_t> out(text.size() + 8);
        const int n = llama_tokenize(llama_model_get_vocab(model_), text.data(), static_cast<int32_t>(text.size()), out.data(),
                                     static_cast<int32_t>(out.size()), false, false);
        out.resize(static_cast<size_t>(std::max(n, 0)));
        return out;
    }
    static std::string decode(const std::vector<int32_t> & tokens) {
        std::string out(tokens.size() * 16 + 16, '\0');
        const int n = llama_detokenize(llama_model_get_vocab(model_), tokens.data(), static_cast<int32_t>(tokens.size()),
                                       out.data(), static_cast<int32_t>(out.size()), false, false);
        out.resize(static_cast<size_t>(std::max(n, 0)));
        return out;
    }
    static std::vector<std::string> pieces(std::string_view text) {
        std::vector<std::string> out;
        for (const int32_t id : encode(text)) { out.push_back(vocabulary_->pieces[static_cast<size_t>(id)]); }
        return out;
    }
    static int count(std::string_view text) { return static_cast<int>(encode(text).size()); }

    static inline std::unique_ptr<Vocabulary> vocabulary_;
    static inline llama_model * model_ = nullptr;
};

TEST_F(VocabularyTest, HasSpecialAndByteTokensWhereLlamaLooksForThem) {
    EXPECT_LE(vocabulary_->size(), VocabularyOptions{}.size);
    EXPECT_EQ(vocabulary_->types[0], TokenType::kUnknown);
    EXPECT_EQ(vocabulary_->types[1], TokenType::kControl);
    EXPECT_EQ(vocabulary_->types[2], TokenType::kControl);
    EXPECT_EQ(std::count(vocabulary_->types.begin(), vocabulary_->types.end(), TokenType::kByte), 256);
    const auto * vocab = llama_model_get_vocab(model_);
    EXPECT_EQ(llama_vocab_n_tokens(vocab), vocabulary_->size());
    EXPECT_EQ(llama_vocab_bos(vocab), vocabulary_->bos);
    EXPECT_EQ(llama_vocab_eos(vocab), vocabulary_->eos);
    EXPECT_TRUE(llama_vocab_is_eog(vocab, vocabulary_->eos));
    EXPECT_TRUE(llama_vocab_get_add_bos(vocab));
}

TEST_F(VocabularyTest, CutsGeneratedTextAsSentencePieceDoes) {
    for (const int n_tokens : {64, 256, 1024}) {
        for (uint64_t index = 0; index < 8; ++index) {
            const auto document = corpus::make_document(corpus::SeedSpace::kValidation, 1, index, n_tokens, count);
            // Stretches between control tokens, whole and segment by segment.
            std::string text;
            std::vector<int32_t> apart;
            const auto check = [&] {
                const auto by_sentencepiece = encode_with_sentencepiece(*vocabulary_, text);
                ASSERT_TRUE(by_sentencepiece.ok()) << by_sentencepiece.status().message();
                const auto tokens = encode(text);
                EXPECT_EQ(tokens, *by_sentencepiece);
                EXPECT_EQ(decode(tokens), text);
                EXPECT_EQ(apart, tokens) << document.kind;
                text.clear();
                apart.clear();
            };
            for (const auto & segment : document.segments) {
                if (segment.control != corpus::Control::kNone) {
                    check();
                    continue;
                }
                text += segment.text;
                const auto part = encode(segment.text);
                apart.insert(apart.end(), part.begin(), part.end());
            }
            check();
        }
    }
}

TEST_F(VocabularyTest, CutsForeignTextAsSentencePieceDoes) {
    for (const std::string_view text : {"Größe, 東京 and \t tabs\n\n\"quotes\" {x: 1234567890123}", "  two  spaces ",
                                        "0 00 007 12345", "CamelCaseWords_and-dashes", "\x7F\x01"}) {
        const auto by_sentencepiece = encode_with_sentencepiece(*vocabulary_, text);
        ASSERT_TRUE(by_sentencepiece.ok());
        EXPECT_EQ(encode(text), *by_sentencepiece) << text;
        EXPECT_EQ(decode(encode(text)), text);
    }
}

TEST_F(VocabularyTest, TakesDigitsInPairsFromTheLeft) {
    EXPECT_EQ(pieces(" 4372918"), (std::vector<std::string>{"▁43", "72", "91", "8"}));
    EXPECT_EQ(pieces(" 12345"), (std::vector<std::string>{"▁12", "34", "5"}));
    EXPECT_EQ(pieces(" 7"), (std::vector<std::string>{"▁7"}));
    EXPECT_EQ(pieces("1000"), (std::vector<std::string>{"10", "00"}));
    EXPECT_EQ(pieces(" 0123"), (std::vector<std::string>{"▁", "01", "23"}));
}

TEST_F(VocabularyTest, TakesADigitBesideALetterOfHexadecimalNumbersAsOnePiece) {
    EXPECT_EQ(pieces(" 3f2a9c1b"), (std::vector<std::string>{"▁", "3f", "2a", "9c", "1b"}));
    EXPECT_LE(count(" 3f2a9c1b-77aa-4bcd-9e01-0123456789ab"), 24);
}

TEST_F(VocabularyTest, TakesNamesOfCapitalsLetterByLetter) {
    EXPECT_EQ(pieces(" QXBTA"), (std::vector<std::string>{"▁Q", "X", "B", "T", "A"}));
}

TEST_F(VocabularyTest, HasTheTokensOfTheChatTemplate) {
    const auto * vocab = llama_model_get_vocab(model_);
    std::string text(corpus::kTurnStartText);
    text.append("user\nHello").append(corpus::kTurnEndText);
    std::vector<int32_t> ids(32);
    const int n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), ids.data(), 32, false, true);
    ASSERT_GT(n, 4);
    EXPECT_EQ(ids[0], vocabulary_->turn_start);
    EXPECT_EQ(ids[static_cast<size_t>(n) - 1], vocabulary_->turn_end);
    EXPECT_EQ(vocabulary_->pieces[static_cast<size_t>(ids[1])], "user");
    EXPECT_TRUE(llama_vocab_is_eog(vocab, vocabulary_->turn_end));
    ASSERT_NE(llama_model_chat_template(model_, nullptr), nullptr);
    const llama_chat_message messages[] = {{"user", "Hello"}};
    std::vector<char> out(256);
    const int size = llama_chat_apply_template(llama_model_chat_template(model_, nullptr), messages, 1, true, out.data(), 256);
    ASSERT_GT(size, 0);
    EXPECT_EQ(std::string(out.data(), static_cast<size_t>(size)), "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_GT(encode(text).size(), static_cast<size_t>(n));  // text of a user is only text
}

TEST_F(VocabularyTest, HoldsTheGeneratorsWordsAsSinglePieces) {
    using namespace corpus::words;
    for (const auto word : corpus::words::single_words()) { EXPECT_EQ(count(" " + std::string(word)), 1) << word; }
    for (const auto list : {kNames, kTowns}) {
        for (const auto word : list) { EXPECT_EQ(count(" " + std::string(word)), 1) << word; }
    }
    for (const auto word : kKeyNouns) { EXPECT_EQ(count("-" + std::string(word)), 2) << word; }
    EXPECT_EQ(count("One of the special magic numbers for quiet-wolf is: 4372918."), 17);
    EXPECT_EQ(count("The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."), 24);
}

TEST_F(VocabularyTest, IsTheSameEachTime) {
    const auto again = train_vocabulary(corpus::vocabulary_sentences());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->pieces, vocabulary_->pieces);
    EXPECT_EQ(again->scores, vocabulary_->scores);
}

TEST_F(VocabularyTest, RefusesWhatCannotBe) {
    EXPECT_FALSE(train_vocabulary({}).ok());
    const std::vector<std::string> text = {"a text"};
    EXPECT_FALSE(train_vocabulary(text, {.size = 100}).ok());
    EXPECT_FALSE(train_vocabulary(text, {.size = 1 << 20}).ok());
    const auto tiny = train_vocabulary(text);  // fewer pieces than asked for
    ASSERT_TRUE(tiny.ok()) << tiny.status().message();
    EXPECT_LT(tiny->size(), 1024);
    const auto unwritable = write_vocabulary("/nonexistent/folder/vocabulary.gguf", *vocabulary_);
    EXPECT_EQ(unwritable.code(), ErrorCode::kIo);
    EXPECT_NE(unwritable.message().find("/nonexistent/folder"), std::string::npos);
}

}  // namespace
}  // namespace pith::train::vocabulary_test
