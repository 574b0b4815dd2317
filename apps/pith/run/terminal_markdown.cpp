// terminal_markdown.cpp - marks are looked at when the character behind them is there.
#include "app/run/terminal_markdown.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace pith::app {
namespace {

constexpr std::string_view kMarks = "`*#";
constexpr std::string_view kControl = "\u241B";
constexpr const char * kCode = "\033[36m";
constexpr const char * kCodeEnds = "\033[39m";
constexpr const char * kBold = "\033[1m";
constexpr const char * kBoldEnds = "\033[22m";
constexpr const char * kItalics = "\033[3m";
constexpr const char * kItalicsEnd = "\033[23m";

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}
// A letter or a digit, or a byte of one that is not in ASCII.
bool is_word(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

}  // namespace

bool shows_colours(int file_descriptor) {
    const char * no = std::getenv("NO_COLOR");  // no-color.org: set and not empty
    const char * terminal = std::getenv("TERM");
    return isatty(file_descriptor) == 1 && (no == nullptr || *no == '\0') && terminal != nullptr &&
           std::string_view(terminal) != "dumb";
}

std::string without_terminal_codes(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
        const bool is_c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // two bytes in UTF-8
        if (byte == '\r') { continue; }
        if (is_c1 || byte == 0x7F || (byte < 0x20 && byte != '\n' && byte != '\t')) {
            out += kControl;
            i += is_c1 ? 1 : 0;
        } else {
            out += text[i];
        }
    }
    return out;
}

std::string TerminalMarkdown::add(std::string_view text) {
    std::string out;
    for (const char c : without_terminal_codes(text)) { add_byte(c, out); }
    return out;
}

std::string TerminalMarkdown::finish() {
    std::string out;
    show_run('\n', out);
    end_line(out);
    if (std::exchange(fence_, 0) > 0) { out += kCodeEnds; }
    *this = TerminalMarkdown();
    return out;
}

void TerminalMarkdown::add_byte(char c, std::string & out) {
    if (!run_.empty() && c != run_[0]) { show_run(c, out); }
    if (kMarks.find(c) != std::string_view::npos && (c != '#' || at_line_start_)) {
        run_ += c;
        return;
    }
    if (c == '\n') { end_line(out); }
    out += c;
    at_line_start_ = c == '\n' || (at_line_start_ && is_blank(c));
    last_ = c;
}

// No style but a block's goes beyond its line.
void TerminalMarkdown::end_line(std::string & out) {
    if (std::exchange(code_, 0) > 0) { out += kCodeEnds; }
    const bool was_bold = std::exchange(strong_, false);
    if (std::exchange(heading_, false) || was_bold) { out += kBoldEnds; }
    if (std::exchange(emphasis_, false)) { out += kItalicsEnd; }
}

void TerminalMarkdown::show_run(char next, std::string & out) {
    if (run_.empty()) { return; }
    if (run_[0] == '`') {
        show_ticks(out);
    } else if (fence_ > 0 || code_ > 0) {
        out += run_;
    } else if (run_[0] == '*') {
        show_stars(next, out);
    } else {
        heading_ = run_.size() <= 6 && next == ' ';
        if (heading_) { out += kBold; }
        out += run_;
    }
    last_ = run_[0];
    at_line_start_ = false;
    run_.clear();
}

void TerminalMarkdown::show_ticks(std::string & out) {
    const size_t n = run_.size();
    if (fence_ > 0) {
        const bool ends = at_line_start_ && n >= fence_;
        out += run_ + (ends ? kCodeEnds : "");
        if (ends) { fence_ = 0; }
    } else if (at_line_start_ && n >= 3) {
        fence_ = n;
        out += kCode;
        out += run_;
    } else if (code_ == 0) {
        code_ = n;
        out += kCode;
        out += run_;
    } else {
        out += run_ + (n == code_ ? kCodeEnds : "");
        if (n == code_) { code_ = 0; }
    }
}

// One that opens stands in front of a word, one that closes behind it: 2 * 3 * 4 has neither.
void TerminalMarkdown::show_stars(char next, std::string & out) {
    const size_t n = run_.size();
    const bool opens = !is_blank(next) && (!is_word(last_) || is_blank(last_));
    const bool closes = !is_blank(last_);
    const auto turn = [&](bool & on, const char * begin, const char * end) {
        if (on && closes) {
            on = false;
            out += run_ + end;
        } else if (!on && opens) {
            on = true;
            out += begin + run_;
        } else {
            out += run_;
        }
    };
    if (n == 1) {
        turn(emphasis_, kItalics, kItalicsEnd);
    } else if (n == 2 && !heading_) {  // which is bold already
        turn(strong_, kBold, kBoldEnds);
    } else {
        out += run_;
    }
}

}  // namespace pith::app
