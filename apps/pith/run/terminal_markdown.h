// terminal_markdown.h - Markdown as it comes, with a terminal's colours: headings and **strength** bold, *emphasis* in italics,
// code cyan. Every mark stays where it is, so what is copied from the screen is what the model wrote; control characters become
// ␛ and do nothing. Pure C++.   Cost: O(bytes).   Threads: one at a time.
#pragma once

#include <string>
#include <string_view>

namespace pith::app {

// Whether what is written to this file descriptor may have colours: it is a terminal, not a dumb one, and NO_COLOR is not set.
bool shows_colours(int file_descriptor);

// Control characters but line breaks and tabs as ␛: they do nothing to the terminal.
std::string without_terminal_codes(std::string_view text);

class TerminalMarkdown {
public:
    // What to write for it; marks at its end wait for what follows. text: whole characters.
    std::string add(std::string_view text);
    std::string finish();  // what still waits, and the colours' end

private:
    void add_byte(char c, std::string & out);
    void end_line(std::string & out);
    void show_run(char next, std::string & out);
    void show_ticks(std::string & out);
    void show_stars(char next, std::string & out);

    std::string run_;            // `, * or # that wait for what follows
    char last_ = '\n';           // in front of the run
    bool at_line_start_ = true;  // nothing but blanks so far
    size_t fence_ = 0;           // backticks that the block of code began with; 0: outside of one
    size_t code_ = 0;            // the same of code in a line
    bool strong_ = false, emphasis_ = false, heading_ = false;
};

}  // namespace pith::app
