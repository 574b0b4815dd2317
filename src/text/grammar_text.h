// grammar_text.h - a grammar's text and how far it has been read: blanks, comments, names, characters as they are written.
// Stage: text.   Pure C++.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

class GrammarText {
public:
    // REQUIRES: UTF-8; the text lives as long as this.
    explicit GrammarText(std::string_view text) : text_(text) {}

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool is_of_name(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-'; }

    bool at_end() const { return at_ == text_.size(); }
    char here() const { return at_end() ? '\0' : text_[at_]; }
    // What has not been read.
    std::string_view rest() const { return text_.substr(at_); }
    void skip(size_t n_bytes) { at_ += n_bytes; }
    bool take(char c);
    void skip_blanks(bool lines_too);  // and comments
    std::string_view read_name();      // letters, digits and -
    std::string_view read_digits();
    // One of a literal or of a class; `\n` and the like are one. Errors: kInvalidArgument, with the line.
    Status read_character(char32_t & character);

    // "the grammar cannot be read: line 3: …"
    Status wrong(const std::string & what) const;

private:
    Status read_escape(char32_t & character);
    Status read_hexadecimal(size_t n_digits, char32_t & character);

    std::string_view text_;
    size_t at_ = 0;
};

}  // namespace pith
