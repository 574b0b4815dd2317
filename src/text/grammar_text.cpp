// grammar_text.cpp - from bytes to characters. Stage: text.
#include "text/grammar_text.h"

#include <algorithm>
#include <cstdint>

namespace pith {
namespace {

constexpr char32_t kLastCharacter = 0x10FFFF;

// Below 0: it is none.
int hexadecimal(char c) {
    if (GrammarText::is_digit(c)) { return c - '0'; }
    if (c >= 'a' && c <= 'f') { return c - 'a' + 10; }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

Status GrammarText::wrong(const std::string & what) const {
    const std::string_view read = text_.substr(0, at_);
    const auto line = 1 + std::ranges::count(read, '\n');
    return {ErrorCode::kInvalidArgument, "the grammar cannot be read: line " + std::to_string(line) + ": " + what};
}

bool GrammarText::take(char c) {
    if (at_end() || text_[at_] != c) { return false; }
    ++at_;
    return true;
}

void GrammarText::skip_blanks(bool lines_too) {
    for (; !at_end(); ++at_) {
        if (text_[at_] == '#') { at_ = std::min(text_.find_first_of("\r\n", at_), text_.size()); }
        const char c = here();
        const bool blank = c == ' ' || c == '\t' || (lines_too && (c == '\n' || c == '\r'));
        if (!blank) { return; }
    }
}

std::string_view GrammarText::read_name() {
    const size_t begin = at_;
    while (is_of_name(here())) { ++at_; }
    return text_.substr(begin, at_ - begin);
}

std::string_view GrammarText::read_digits() {
    const size_t begin = at_;
    while (is_digit(here())) { ++at_; }
    return text_.substr(begin, at_ - begin);
}

Status GrammarText::read_character(char32_t & character) {
    if (at_end()) { return wrong("the text ends inside of quotation marks or brackets []"); }
    if (take('\\')) { return read_escape(character); }
    const auto lead = static_cast<unsigned char>(text_[at_]);
    const size_t n_bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    character = n_bytes == 1 ? lead : lead & (0xFFU >> (n_bytes + 1));
    for (size_t i = 1; i < n_bytes; ++i) {
        character = (character << 6U) | (static_cast<unsigned char>(text_[at_ + i]) & 0x3FU);
    }
    at_ += n_bytes;
    return {};
}

Status GrammarText::read_escape(char32_t & character) {
    static constexpr std::string_view kThemselves = "\\\"[]-";
    const char kind = here();
    switch (kind) {
        case 'x':
            return read_hexadecimal(2, character);
        case 'u':
            return read_hexadecimal(4, character);
        case 'U':
            return read_hexadecimal(8, character);
        case 't':
            character = '\t';
            break;
        case 'r':
            character = '\r';
            break;
        case 'n':
            character = '\n';
            break;
        default:
            if (at_end() || kThemselves.find(kind) == std::string_view::npos) {
                return wrong(R"(behind a \ stands one of \ " [ ] - n r t x u U)");
            }
            character = static_cast<unsigned char>(kind);
    }
    ++at_;
    return {};
}

Status GrammarText::read_hexadecimal(size_t n_digits, char32_t & character) {
    uint32_t value = 0;
    ++at_;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
        const int digit = hexadecimal(here());
        if (digit < 0) { return wrong(std::to_string(n_digits) + " hexadecimal digits belong behind \\x, \\u or \\U"); }
        value = value * 16 + static_cast<uint32_t>(digit);
    }
    character = std::min<char32_t>(value, kLastCharacter);
    return {};
}

}  // namespace pith
