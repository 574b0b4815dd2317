// code_blocks.cpp - line by line, byte by byte. Stage: text.
#include "text/code_blocks.h"

namespace pith {
namespace {

constexpr size_t kMostIndent = 3;

}  // namespace

void CodeBlocks::end_line() {
    const bool is_fence = line_ == Line::kTicks && n_ticks_ >= kFewestTicks;
    if (n_fence_ == 0 && (is_fence || line_ == Line::kInfo)) {
        n_fence_ = n_ticks_;
    } else if (n_fence_ > 0 && (line_ == Line::kClosed || (is_fence && n_ticks_ >= n_fence_))) {
        n_fence_ = 0;
    }
    behind_blank_line_ = line_ == Line::kBlank;
    line_ = Line::kBlank;
    n_indent_ = n_ticks_ = 0;
}

void CodeBlocks::add(char c) {
    if (c == '\n') { return end_line(); }
    const bool is_blank = c == ' ' || c == '\t' || c == '\r';
    switch (line_) {
        case Line::kBlank:
            if (is_blank) {
                ++n_indent_;
                return;
            }
            line_ = c == '`' && n_indent_ <= kMostIndent ? Line::kTicks : Line::kText;
            n_ticks_ = line_ == Line::kTicks ? 1 : 0;
            return;
        case Line::kTicks:
            if (c == '`') {
                ++n_ticks_;
            } else if (n_fence_ == 0) {
                line_ = n_ticks_ >= kFewestTicks ? Line::kInfo : Line::kText;
            } else {
                line_ = is_blank && n_ticks_ >= n_fence_ ? Line::kClosed : Line::kText;
            }
            return;
        case Line::kInfo:
            if (c == '`') { line_ = Line::kText; }  // code within the line
            return;
        case Line::kClosed:
            if (!is_blank) { line_ = Line::kText; }
            return;
        case Line::kText:
            return;
    }
}

void CodeBlocks::add(std::string_view text) {
    for (const char c : text) { add(c); }
}

void CodeBlocks::begin_line(size_t n_ticks) {
    line_ = Line::kBlank;
    n_indent_ = n_ticks_ = 0;
    n_fence_ = n_ticks;
    behind_blank_line_ = false;
}

}  // namespace pith
