// code_blocks.h - where in a Markdown text one is: in a block of code, at a line's beginning. Stage: text.
//
// A block begins with a line of three or more backticks and perhaps a word, and ends with a line of at least as many, neither
// indented by more than three blanks.   Threads: one at a time. Cost: linear.
#pragma once

#include <cstddef>
#include <string_view>

namespace pith {

class CodeBlocks {
public:
    static constexpr size_t kFewestTicks = 3;  // of a fence

    void add(std::string_view text);
    // A new line, in a block whose fence has so many backticks; 0: in none.
    void begin_line(size_t n_ticks);

    bool is_inside() const { return n_fence_ > 0; }
    bool begins_line() const { return line_ == Line::kBlank; }  // nothing but blanks stands in the line
    bool is_behind_blank_line() const { return behind_blank_line_ && begins_line(); }

private:
    enum class Line { kBlank, kTicks, kInfo, kClosed, kText };

    void add(char c);
    void end_line();

    Line line_ = Line::kBlank;
    size_t n_indent_ = 0;
    size_t n_ticks_ = 0;  // at the line's beginning
    size_t n_fence_ = 0;  // of the block; 0: none
    bool behind_blank_line_ = false;
};

}  // namespace pith
