// random_vocab.cpp - see random_vocab.h.
#include "model/random/random_vocab.h"

#include <cstdio>
#include <string_view>
#include <unordered_set>

namespace pith {
namespace {

constexpr int kNormal = 1;
constexpr int kUnknown = 2;
constexpr int kControl = 3;
constexpr int kByte = 6;
constexpr int kBytes = 256;
constexpr int kSpecials = 3;
constexpr char kFirstPrintable = '!';
constexpr char kLastPrintable = '~';
constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581, SentencePiece's visible blank

// Every prefix of a word becomes a piece, so that left-to-right merges reach the whole word.
constexpr std::string_view kWords[] = {
    "the",    "of",      "and",    "to",       "in",      "is",     "that",    "was",    "he",     "for",    "it",      "with",
    "as",     "his",     "on",     "be",       "at",      "by",     "had",     "not",    "are",    "but",    "from",    "or",
    "have",   "an",      "they",   "which",    "one",     "you",    "were",    "her",    "all",    "she",    "there",   "would",
    "their",  "we",      "him",    "been",     "has",     "when",   "who",     "will",   "more",   "no",     "if",      "out",
    "so",     "said",    "what",   "up",       "its",     "about",  "into",    "than",   "them",   "can",    "only",    "other",
    "new",    "some",    "could",  "time",     "these",   "two",    "may",     "then",   "do",     "first",  "any",     "my",
    "now",    "such",    "like",   "our",      "over",    "man",    "me",      "even",   "most",   "made",   "after",   "also",
    "did",    "many",    "before", "must",     "through", "years",  "where",   "much",   "your",   "way",    "well",    "down",
    "should", "because", "each",   "just",     "those",   "people", "how",     "too",    "little", "state",  "good",    "very",
    "make",   "world",   "still",  "own",      "see",     "men",    "work",    "long",   "get",    "here",   "between", "both",
    "life",   "being",   "under",  "never",    "day",     "same",   "another", "know",   "while",  "last",   "might",   "us",
    "great",  "old",     "year",   "off",      "come",    "since",  "against", "go",     "came",   "right",  "used",    "take",
    "number", "special", "magic",  "question", "answer",  "city",   "house",   "garden", "river",  "letter", "read",    "write",
};

constexpr std::string_view kEndings[] = {"s",  "ed", "ing", "er", "es", "ly", "on", "ion", "tion", "ment", "ness", "al",
                                         "en", "or", "ar",  "an", "in", "it", "at", "re",  "th",   "he",   "nd",   "ou"};

// A pronounceable invented word for every index: letters enough to read, and no two alike.
std::string invented_word(uint32_t index) {
    constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwxz";
    constexpr std::string_view kVowels = "aeiou";
    constexpr uint32_t kSyllables = 100;
    std::string word;
    uint32_t rest = index;
    for (int syllable = 0; syllable < 2 || rest > 0; ++syllable) {
        const uint32_t pick = rest % kSyllables;
        rest /= kSyllables;
        word += kConsonants[pick / kVowels.size()];
        word += kVowels[pick % kVowels.size()];
    }
    return word;
}

class Builder {
public:
    explicit Builder(int n_vocab) : n_vocab_(static_cast<size_t>(n_vocab)) { seen_.reserve(n_vocab_); }

    bool full() const { return vocab_.pieces.size() >= n_vocab_; }
    void add(std::string piece, int type) {
        if (full() || !seen_.insert(piece).second) { return; }
        const bool ranked = type == kNormal;
        vocab_.scores.push_back(ranked ? -static_cast<float>(vocab_.pieces.size()) : 0.0F);
        vocab_.types.push_back(type);
        vocab_.pieces.push_back(std::move(piece));
    }
    RandomVocab take() { return std::move(vocab_); }

private:
    size_t n_vocab_;
    RandomVocab vocab_;
    std::unordered_set<std::string> seen_;
};

}  // namespace

int min_random_vocab(bool byte_tokens) {
    return kSpecials + (byte_tokens ? kBytes : 0) + 1 + (kLastPrintable - kFirstPrintable + 1);
}

RandomVocab make_random_vocab(int n_vocab, bool byte_tokens) {
    Builder builder(n_vocab);
    builder.add("<unk>", kUnknown);
    builder.add("<s>", kControl);
    builder.add("</s>", kControl);
    for (unsigned byte = 0; byte_tokens && byte < kBytes; ++byte) {
        char text[8];
        std::snprintf(text, sizeof text, "<0x%02X>", byte & 0xFFU);
        builder.add(text, kByte);
    }
    const std::string space(kSpace);
    builder.add(space, kNormal);
    for (char c = kFirstPrintable; c <= kLastPrintable; ++c) { builder.add(std::string(1, c), kNormal); }
    for (const std::string_view word : kWords) {
        for (size_t n = 1; n <= word.size(); ++n) { builder.add(space + std::string(word.substr(0, n)), kNormal); }
    }
    for (const std::string_view ending : kEndings) {
        for (size_t n = 2; n <= ending.size(); ++n) { builder.add(std::string(ending.substr(0, n)), kNormal); }
    }
    for (uint32_t index = 0; !builder.full(); ++index) { builder.add(space + invented_word(index), kNormal); }
    return builder.take();
}

}  // namespace pith
