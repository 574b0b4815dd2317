// document_builder.h - collects segments up to a token limit; used by the recipes only.
// Pure C++: no I/O.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "corpus/corpus.h"

namespace pith::corpus {

// What a segment is for, as a weight of the loss.
inline constexpr float kAnswerWeight = 1.0F;   // answers, copies: the context holds them
inline constexpr float kRandomWeight = 0.02F;  // freshly drawn keys and values: nothing predicts them

// One question about a context with its answer. `ask` begins with the line break that ends what stands before it; the last
// segment of `answer` ends it (Segment::end).
struct Question {
    std::vector<Segment> ask;
    std::vector<Segment> answer;
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

// Turns of the chat template around segments: <|im_start|>role\n … <|im_end|>\n. In an answer the end is learnt.
void open_turn(std::vector<Segment> & out, std::string_view role);
void close_turn(std::vector<Segment> & out, float weight);

// Fills the document with a context and questions:
//   preamble; `hidden` (each a sentence) at random places among filler, in their order; then questions in turn until
//   none fits. `share` of the room goes to the context at most; what the hidden sentences need comes first.
enum class Filler { kNone, kNoise, kStory };
struct Layout {
    std::vector<Segment> lead;  // what comes before all else, such as a worked example
    std::string preamble;
    std::vector<std::vector<Segment>> hidden;
    std::vector<Question> questions;
    Filler filler = Filler::kNoise;  // lines of one noise, story sentences, or nothing but the hidden lines
    double share = 0.6;              // of the document that is context
    bool chat = false;               // in the chat template: context and questions are the user's, answers the assistant's
    std::string system;              // system prompt of a chat; empty: none
};
// False when even the bare hidden sentences or the first question do not fit.
bool lay_out(DocumentBuilder & builder, Layout layout, Random & random);

// A document without chat as a worked example in front of another: its answers do not end it, an empty line does.
std::vector<Segment> as_example(Document document);

// Some short sentences that are repeated for ever, as RULER's noise is; never RULER's own.
std::vector<std::string_view> draw_noise(Random & random);

// " a, b, c." and the end.
void append_answer(std::vector<Segment> & out, std::span<const std::string> answers);

// " $V" and the like of a form (training_wording.h), with their weights.
struct Blanks {
    std::string_view what = "number";        // $k, and with an s $ks
    std::span<const std::string> keys = {};  // $K: " a", " a and b", " a, b, and c"
    enum class Keys {
        kNew,    // said for the first time: nothing predicts them
        kOneOf,  // one of the context's: only what follows from its beginning can be told
        kKnown,  // named just before
    } known = Keys::kOneOf;
    std::string_view value = {};  // $V
    float value_weight = kPlainWeight;
    int n = 0;  // $n
};
void append_form(std::vector<Segment> & out, std::string_view form, const Blanks & blanks);

// The recipes. Each returns a document of at most n_tokens; `n` is the document's length.
Document pairs_document(Random & random, int n_tokens, const CountTokens & count);
Document copy_document(Random & random, int n_tokens, const CountTokens & count);
Document needle_document(Random & random, int n_tokens, const CountTokens & count);
Document world_document(Random & random, int n_tokens, const CountTokens & count);
Document tracking_document(Random & random, int n_tokens, const CountTokens & count);
Document counts_document(Random & random, int n_tokens, const CountTokens & count);
Document talk_document(Random & random, int n_tokens, const CountTokens & count);
Document text_document(Random & random, int n_tokens, const CountTokens & count);

}  // namespace pith::corpus
