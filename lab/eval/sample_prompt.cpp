// sample_prompt.cpp - joins a sample's pieces, cuts the middle out, and finds the borders again. Stage: eval.
#include "eval/sample_prompt.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "text/chat_frame.h"
#include "text/prompt.h"
#include "text/utf8.h"

namespace pith {
namespace {

using benchmarks::Sample;
using benchmarks::TooLong;
using benchmarks::Turn;

using Tokens = std::vector<int32_t>;

Tokens slice(const Tokens & tokens, size_t begin, size_t end) {
    return {tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

Result<int> count(const Tokenizer & tokenizer, std::string_view text) {
    PITH_ASSIGN_OR_RETURN(const Tokens tokens, tokenizer.encode(text, false, false));
    return static_cast<int>(tokens.size());
}

// The text of some tokens; characters that a cut went through are left out.
std::string text_of(const Tokenizer & tokenizer, std::span<const int32_t> tokens) {
    std::string text;
    for (const int32_t token : tokens) { text += tokenizer.piece(token); }
    size_t begin = 0;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) { ++begin; }
    text.erase(0, begin);
    text.resize(text.size() - incomplete_utf8_tail(text));
    return text;
}

// LongBench's truncation: of the whole prompt the first half and the last half stay; what goes is context, since the question
// stands at the end.
Result<std::string> cut_middle(const Tokenizer & tokenizer, const std::string & context, int n_rest, int limit, int & n_cut) {
    PITH_ASSIGN_OR_RETURN(const Tokens tokens, tokenizer.encode(context, false, false));
    const int n = static_cast<int>(tokens.size());
    if (n + n_rest <= limit) { return context; }
    const int keep = std::max(0, limit - n_rest);
    const int front = std::min(keep, limit / 2);
    n_cut = n - keep;
    return text_of(tokenizer, std::span(tokens).first(static_cast<size_t>(front))) +
           text_of(tokenizer, std::span(tokens).last(static_cast<size_t>(keep - front)));
}

struct Frames {
    ChatFrame one;
    std::string between;
};

Result<Frames> frames_of(const Tokenizer & tokenizer, bool chat, bool dialogue) {
    Frames frames;
    if (!chat) { return frames; }
    PITH_ASSIGN_OR_RETURN(frames.one, chat_frame(tokenizer, false));
    if (dialogue) { PITH_ASSIGN_OR_RETURN(frames.between, between_turns(tokenizer)); }
    return frames;
}

// A text's tokens at the beginning of a prompt, or in its middle: there some tokenisers must be kept from beginning with a
// space of their own, so something stands in front that is taken off again.
Result<Tokens> encode_at(const Tokenizer & tokenizer, const std::string & text, bool at_beginning) {
    if (at_beginning) { return tokenizer.encode(text, true, true); }
    for (const char * anchor : {"\n", "."}) {
        PITH_ASSIGN_OR_RETURN(const Tokens before, tokenizer.encode(anchor, false, true));
        PITH_ASSIGN_OR_RETURN(const Tokens both, tokenizer.encode(anchor + text, false, true));
        if (common_prefix(before, both) == before.size()) { return slice(both, before.size(), both.size()); }
    }
    return tokenizer.encode(text, false, true);
}

// A turn's whole prompt, as one piece.
struct Whole {
    Tokens tokens;
    Tokens asked;                 // up to the answer prefix
    std::vector<Tokens> choices;  // the whole with each of them
    size_t end = 0;               // of what all choices share
};

// before: the text in front of the question.   first: nothing stands in front of that.
Result<Whole> encode_turn(const Tokenizer & tokenizer, const Turn & turn, const std::string & before, const std::string & after,
                          bool first) {
    Whole whole;
    const std::string asked = before + turn.question + after;
    const std::string text = asked + turn.answer_prefix;
    PITH_ASSIGN_OR_RETURN(whole.tokens, encode_at(tokenizer, text, first));
    PITH_ASSIGN_OR_RETURN(whole.asked, encode_at(tokenizer, asked, first));
    whole.end = whole.tokens.size();
    for (const std::string & choice : turn.choices) {
        PITH_ASSIGN_OR_RETURN(Tokens longer, encode_at(tokenizer, text + choice, first));
        whole.end =
            std::min({whole.end, common_prefix(whole.tokens, longer), longer.size() - std::min<size_t>(1, longer.size())});
        whole.choices.push_back(std::move(longer));
    }
    return whole;
}

// REQUIRES: begin <= whole.end.
TurnTokens split_turn(const Whole & whole, size_t begin) {
    TurnTokens tokens;
    const size_t border = std::min(whole.end, std::max(begin, common_prefix(whole.asked, whole.tokens)));
    tokens.question = slice(whole.tokens, begin, border);
    tokens.prefix = slice(whole.tokens, border, whole.end);
    for (const Tokens & longer : whole.choices) { tokens.choices.push_back(slice(longer, whole.end, longer.size())); }
    return tokens;
}

std::string refusal(const Sample & sample, size_t n_tokens, int n_ctx) {
    return "sample '" + sample.id + "' needs " + std::to_string(n_tokens) + " tokens, the limit is " + std::to_string(n_ctx);
}

}  // namespace

Result<int> prompt_overhead(const Tokenizer & tokenizer, bool chat) {
    PITH_ASSIGN_OR_RETURN(const Frames frames, frames_of(tokenizer, chat, false));
    PITH_ASSIGN_OR_RETURN(const Tokens tokens, tokenizer.encode(frames.one.before_user + frames.one.after_user, true, true));
    return static_cast<int>(tokens.size());
}

Result<SampleTokens> tokenise_sample(const Tokenizer & tokenizer, const Sample & given, const PromptRules & rules) {
    Sample sample = given;
    for (Turn & turn : sample.turns) {
        if (!rules.prefix_asked) { break; }
        turn.question += std::exchange(turn.answer_prefix, "");
    }
    SampleTokens out;
    out.dialogue = std::any_of(sample.turns.begin(), sample.turns.end(), [](const Turn & t) { return !t.follow_up.empty(); });
    PITH_ASSIGN_OR_RETURN(const Frames frames, frames_of(tokenizer, rules.chat, out.dialogue));

    std::string context = sample.context;
    if (rules.too_long == TooLong::kMiddle && (rules.n_middle > 0 || rules.n_ctx > 0)) {
        int n_rest = 0;
        int n_new = 0;
        for (const Turn & turn : sample.turns) {
            std::string said = turn.question + turn.answer_prefix;
            const bool is_last = &turn == &sample.turns.back();
            if (out.dialogue && !is_last) { said += turn.follow_up + frames.between; }  // the next question comes behind it
            PITH_ASSIGN_OR_RETURN(const int n, count(tokenizer, said));
            n_rest = out.dialogue ? n_rest + n : std::max(n_rest, n);
            n_new = std::max(n_new, turn.max_new_tokens);
        }
        PITH_ASSIGN_OR_RETURN(const int overhead, prompt_overhead(tokenizer, rules.chat));
        int limit = rules.n_middle > 0 ? rules.n_middle : std::numeric_limits<int>::max();
        if (rules.n_ctx > 0) { limit = std::min(limit, rules.n_ctx - n_new - overhead); }
        PITH_ASSIGN_OR_RETURN(context, cut_middle(tokenizer, context, n_rest, limit, out.n_cut));
    }

    const std::string head = frames.one.before_user + context;
    PITH_ASSIGN_OR_RETURN(const Tokens head_tokens, tokenizer.encode(head, true, true));
    // What is compressed before the question is known: nothing, where a sample has no context of its own.
    size_t n_context = context.empty() ? 0 : head_tokens.size();
    std::vector<Whole> wholes;
    for (size_t i = 0; i < sample.turns.size(); ++i) {
        const bool follows = out.dialogue && i > 0;
        PITH_ASSIGN_OR_RETURN(Whole whole,
                              encode_turn(tokenizer, sample.turns[i], follows ? "" : head, frames.one.after_user, !follows));
        if (whole.end == 0) {
            return {ErrorCode::kInvalidArgument, "sample '" + sample.id + "' has a question without tokens"};
        }
        // One token at least follows the context: its logits are the answer's beginning.
        if (!follows) { n_context = std::min({n_context, common_prefix(head_tokens, whole.tokens), whole.end - 1}); }
        wholes.push_back(std::move(whole));
    }
    if (wholes.empty()) { return {ErrorCode::kInvalidArgument, "sample '" + sample.id + "' asks nothing"}; }
    out.context = slice(wholes.front().tokens, 0, n_context);

    size_t n_longest = 0;
    size_t n_said = n_context;
    for (size_t i = 0; i < sample.turns.size(); ++i) {
        const Turn & turn = sample.turns[i];
        const bool follows = out.dialogue && i > 0;
        TurnTokens tokens = split_turn(wholes[i], follows ? 0 : n_context);
        if (out.dialogue && i + 1 < sample.turns.size()) {
            PITH_ASSIGN_OR_RETURN(tokens.follow_up, encode_at(tokenizer, turn.follow_up + frames.between, false));
        }
        size_t n_answer = static_cast<size_t>(std::max(0, turn.max_new_tokens));
        for (const Tokens & choice : tokens.choices) { n_answer = std::max(n_answer, choice.size()); }
        const size_t n_asked = tokens.question.size() + tokens.prefix.size();
        n_longest = std::max(n_longest, n_said + n_asked + n_answer);
        if (out.dialogue) { n_said += n_asked + tokens.follow_up.size(); }
        out.turns.push_back(std::move(tokens));
    }
    if (rules.n_ctx > 0 && n_longest > static_cast<size_t>(rules.n_ctx)) {
        out.too_long = refusal(sample, n_longest, rules.n_ctx);
    }
    return out;
}

}  // namespace pith
