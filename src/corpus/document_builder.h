// document_builder.h - collects segments up to a token limit; used by the recipes only.
// Pure C++: no I/O.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corpus/corpus.h"

namespace pith::corpus {

// What a segment is for, as a weight of the loss.
inline constexpr float kAnswerWeight = 1.0F;   // answers, copies: the context holds them
inline constexpr float kRandomWeight = 0.02F;  // freshly drawn keys and values: nothing predicts them

// One question about a context with its answer.
struct Question {
    std::vector<Segment> segments;
};

// Threads: one at a time.
class DocumentBuilder {
public:
    // One token is the begin token.
    DocumentBuilder(std::string kind, int n_tokens, const CountTokens & count);

    int room() const { return room_; }
    int cost(std::string_view text);  // tokens, remembered: sentences and words repeat
    int cost(const std::vector<Segment> & segments);
    // Appends all segments when they fit; else changes nothing and says false.
    bool add(std::vector<Segment> segments);
    bool add(std::string text, float weight, bool end = false);
    bool empty() const { return document_.segments.empty(); }
    Document take() { return std::move(document_); }

private:
    Document document_;
    int room_;
    const CountTokens & count_;
    std::unordered_map<std::string, int> known_;
};

// The pieces of a statement, its answer weighed by itself.
std::vector<Segment> statement_segments(std::string_view statement, std::string_view answer, float weight, float answer_weight);
// A needle's sentence; key and value weigh what `known` says: 1 when the context already holds them.
std::vector<Segment> needle_segments(std::string_view key, std::string_view value, bool known);

// Fills the document with a context and questions:
//   preamble; `hidden` (each a sentence) at random places among filler, in their order; then questions in turn until
//   none fits. `share` of the room goes to the context at most; what the hidden sentences need comes first.
struct Layout {
    std::string preamble;
    std::vector<std::vector<Segment>> hidden;
    std::vector<Question> questions;
    bool noise = true;   // haystack of noise lines, else of story sentences
    double share = 0.6;  // of the document that is context
};
// False when even the bare hidden sentences or the first question do not fit.
bool lay_out(DocumentBuilder & builder, Layout layout, Random & random);

// The recipes. Each returns a document of at most n_tokens; `n` is the document's length.
Document pairs_document(Random & random, int n_tokens, const CountTokens & count);
Document copy_document(Random & random, int n_tokens, const CountTokens & count);
Document needle_document(Random & random, int n_tokens, const CountTokens & count);
Document world_document(Random & random, int n_tokens, const CountTokens & count);
Document tracking_document(Random & random, int n_tokens, const CountTokens & count);
Document common_document(Random & random, int n_tokens, const CountTokens & count);
Document text_document(Random & random, int n_tokens, const CountTokens & count);

}  // namespace pith::corpus
