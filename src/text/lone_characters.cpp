// lone_characters.cpp - the characters of a vocabulary, and a text's between them.
#include "text/lone_characters.h"

#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "text/utf8.h"

namespace pith {
namespace {

constexpr size_t kPartBytes = 4096;
constexpr char32_t kAscii = 0x80;

// The character at `at`, which goes behind it.   REQUIRES: text is UTF-8.
char32_t next_character(std::string_view text, size_t & at) {
    const auto byte = [&text](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
    const uint32_t first = byte(at++);
    if (first < kAscii) { return first; }
    const int n_more = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    uint32_t character = first & (0x3FU >> static_cast<unsigned>(n_more));
    for (int i = 0; i < n_more; ++i) { character = character << 6U | (byte(at++) & 0x3FU); }
    return character;
}

void sort_and_thin(std::vector<char32_t> & characters) {
    std::ranges::sort(characters);
    characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
}

}  // namespace

LoneCharacters::LoneCharacters(const llama_vocab * vocab) {
    if (llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_SPM) { return; }
    for (int32_t id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
        const char * entry = llama_vocab_get_text(vocab, id);
        const std::string_view text = entry == nullptr ? "" : entry;
        if (invalid_utf8_offset(text)) { return; }  // half a character: nobody knows with what it merges
        char32_t character = 0;
        for (size_t at = 0; at < text.size();) {
            character = next_character(text, at);
            if (character >= kAscii) { known_.push_back(character); }
        }
        if (llama_vocab_get_attr(vocab, id) != LLAMA_TOKEN_ATTR_NORMAL) { ends_.push_back(character); }
    }
    sort_and_thin(known_);
    sort_and_thin(ends_);
    cuts_ = true;
}

// What ASCII has beside letters, blanks above all, is treated specially: none of it is called alone.
bool LoneCharacters::is_alone(char32_t character) const {
    return character >= kAscii && !std::ranges::binary_search(known_, character);
}

// Some special tokens take the white space behind them along.
bool LoneCharacters::may_end_a_special_token(char32_t character) const {
    return character <= U' ' || std::ranges::binary_search(ends_, character);
}

std::vector<std::string_view> LoneCharacters::cut(std::string_view text) const {
    std::vector<std::string_view> parts;
    size_t begin = 0;
    char32_t before = 0;
    for (size_t at = 0; cuts_ && at < text.size();) {
        const size_t here = at;
        const char32_t last = before;
        before = next_character(text, at);
        if (here - begin < kPartBytes || !is_alone(before) || may_end_a_special_token(last)) { continue; }
        parts.push_back(text.substr(begin, here - begin));
        begin = here;
    }
    parts.push_back(text.substr(begin));
    return parts;
}

}  // namespace pith
