// word_counter.h - a tokeniser's stand-in for the tests: what the reference vocabulary does to the generator's text.
// One token per word with its space (a space in front of a line break stands alone), per pair of digits, and per other
// character.
#pragma once

#include <cctype>
#include <string_view>

namespace pith::corpus {

inline int count_words(std::string_view text) {
    int n = 0;
    for (size_t i = 0; i < text.size();) {
        if (text[i] == ' ' && i + 1 < text.size() && text[i + 1] != ' ' && text[i + 1] != '\n') { ++i; }
        const auto is = [&](int (*kind)(int)) { return i < text.size() && kind(static_cast<unsigned char>(text[i])) != 0; };
        if (is(std::isdigit)) {
            ++i;
            if (is(std::isdigit)) { ++i; }
        } else if (is(std::isalpha)) {
            while (is(std::isalpha)) { ++i; }
        } else {
            ++i;
        }
        ++n;
    }
    return n;
}

}  // namespace pith::corpus
