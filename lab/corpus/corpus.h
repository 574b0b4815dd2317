// corpus.h - the documents that train the reference model: a context full of facts, then many questions about it.
// Pure C++: no ggml, no I/O.
//
// A document is a list of segments. Tokenise each segment by itself (no begin token, no space prefix) and concatenate:
// the vocabulary (train/data/vocabulary.h) joins nothing across a segment's start, so this equals tokenising the whole text.
//   tokens  = bos, then for every segment its tokens, then eos where `end` is set
//   a segment with `control` is that one control token of the chat template, its text spelt out for people
//   weights = the segment's weight for each of its tokens *as targets* (the eos included); 0 for bos
// The document's tokens (bos and every eos counted) are at most `n_tokens`; pad the rest with eos at weight 0.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/random.h"
#include "tasks/tasks.h"

namespace pith::corpus {

// The control tokens of the chat template (ChatML).
enum class Control { kNone, kTurnStart, kTurnEnd };
inline constexpr std::string_view kTurnStartText = "<|im_start|>";
inline constexpr std::string_view kTurnEndText = "<|im_end|>";

struct Segment {
    std::string text;
    float weight = 1.0F;  // of the loss at these tokens; see kPlainWeight
    bool end = false;     // an end-of-sequence token follows, with the same weight: the answer is complete
    Control control = Control::kNone;
};

struct Document {
    std::string kind;  // which recipe wrote it; see document_kinds()
    std::vector<Segment> segments;
    std::string text() const;  // all segments joined
};

// What nothing in the context predicts weighs less than answers and copies (1).
inline constexpr float kPlainWeight = 0.15F;

// The recipes: "pairs", "copy", "needles", "world", "vt", "counts", "talk", "text".
std::vector<std::string_view> document_kinds();

// Shares of the recipes among documents, by their names; they need not add up to 1. Empty: those of the length.
using Mixture = std::map<std::string, double, std::less<>>;

// The document `index` of a stream: the same arguments always give the same document, another length another one.
//   index      REQUIRES: < 2^28
//   n_tokens   length to fill: 64 and 128 are mostly random-key recall and copies, longer ones turn to the tasks.
//              REQUIRES: n_tokens >= 48 (less is treated as 48).
//   space      kTraining or kValidation
//   count      tokens of a text without special tokens; called for pieces of the document, so it should be cheap
// Cost: a few milliseconds at 1,024 tokens.   Threads: as `count`.
Document make_document(SeedSpace space, uint64_t seed, uint64_t index, int n_tokens, const CountTokens & count,
                       const Mixture & mixture = {});

// Plain text of small worlds without questions: held-out perplexity. At most n_tokens tokens.
Document make_plain_text(SeedSpace space, uint64_t seed, uint64_t index, int n_tokens, const CountTokens & count);

// Sentences for training the vocabulary: every word of the generator is among them, the frequent ones more often.
std::vector<std::string> vocabulary_sentences();

}  // namespace pith::corpus
