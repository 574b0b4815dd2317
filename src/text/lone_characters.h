// lone_characters.h - where a text may be cut so that the tokens of its parts are the tokens of the whole. Stage: text.
//
// A character that is in no entry of a SentencePiece vocabulary becomes its bytes' tokens. libllama makes room for them
// character by character, which costs the square of a text's length. But such a character merges with no neighbour, and no
// special token's name holds it: what stands in front of it is tokenised as if nothing followed, and what begins with it as if
// nothing had been there. But for the blank that SentencePiece puts in front of a text, and behind a special token: nothing is
// cut there.
// Threads: const-safe. Cost: made in one pass over the vocabulary.
#pragma once

#include <string_view>
#include <vector>

struct llama_vocab;

namespace pith {

class LoneCharacters {
public:
    LoneCharacters() = default;  // no character is alone: nothing is cut
    explicit LoneCharacters(const llama_vocab * vocab);

    // Parts of some kilobytes, each but the first beginning with a lone character; one part where there are none, or the
    // vocabulary is not SentencePiece's.   REQUIRES: text is UTF-8.
    std::vector<std::string_view> cut(std::string_view text) const;

private:
    bool is_alone(char32_t character) const;
    bool may_end_a_special_token(char32_t character) const;

    std::vector<char32_t> known_;  // beyond ASCII, ascending
    std::vector<char32_t> ends_;   // last characters of special tokens' names, ascending
    bool cuts_ = false;
};

}  // namespace pith
