// plain_text.h - text that somebody else wrote, in which the name of a special token is text. Stage: text.
//
// A prompt is tokenised in one piece: the template's "<|im_end|>" is to become one token, and a reader's is not. So the
// reader's is cut behind its first character, and the parts are tokenised by themselves. Where nobody writes such a name
// nothing is cut, and the tokens are what they would be. Threads: const-safe. Cost: cut() is one pass over the text; made in
// one pass over the vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pith/text.h"
#include "text/reasoning.h"

struct llama_vocab;

namespace pith {

class PlainText {
public:
    PlainText() = default;  // no names: nothing is cut
    explicit PlainText(const llama_vocab * vocab);
    explicit PlainText(const std::vector<std::string> & names);
    static const PlainText & of(const Tokenizer & tokenizer);

    // With a byte that no UTF-8 has at every place to cut at, or with `mark`.
    std::string cut(std::string_view text) const;
    std::string cut(std::string_view text, std::string_view mark) const;

private:
    bool begins_with_name(std::string_view text) const;

    std::array<std::vector<std::string>, 256> names_;  // by their first byte, in order
};

// The text with the cuts that its tokeniser needs. For text between what a template puts around it.
// Errors: kInvalidArgument: no UTF-8 (names the byte).
Result<std::string> as_plain_text(const Tokenizer & tokenizer, std::string_view text);

// The same of what the model said, whose marks of thoughts are left whole: the template looks for them.
Result<std::string> as_plain_answer(const Tokenizer & tokenizer, std::string_view text, const ReasoningMarks & marks);

// A conversation as its chat template writes it, with the cuts that its tokeniser needs: names of special tokens are text in
// what is said, in roles, names and calls, and in the functions that are offered. Errors: as Tokenizer::apply_chat_template;
// kInvalidArgument: the messages hold every one of Unicode's noncharacters U+FDD0 to U+FDEF, of which one must be free.
Result<std::string> render_plain_chat(const Tokenizer & tokenizer, std::span<const ChatMessage> messages,
                                      const ChatOptions & options);

// The tokens of a text with such cuts in it; without any, tokenizer.encode(text, add_special, true).
// Errors: as Tokenizer::encode.
Result<std::vector<int32_t>> encode_cut(const Tokenizer & tokenizer, std::string_view text, bool add_special);

}  // namespace pith
