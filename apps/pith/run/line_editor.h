// line_editor.h - a line from the user: with history, editing and completion at a terminal, plain elsewhere.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pith::app {

class LineEditor {
public:
    enum class What { kLine, kInterrupt, kEnd };
    struct Input {
        What what = What::kEnd;
        std::string text;
    };
    // What Tab may put in place of the word that is being written.
    struct Completions {
        std::vector<std::string> words;
        bool has_files = false;  // names of files instead
    };
    using Complete = std::function<Completions(std::string_view line_before_word)>;

    explicit LineEditor(Complete complete = {});
    LineEditor(const LineEditor &) = delete;
    LineEditor & operator=(const LineEditor &) = delete;

    // A line; several, where one ends in a backslash. kInterrupt: Ctrl-C. kEnd: Ctrl-D, or no more input.
    // prompt is shown at a terminal only, further for the lines that go on. What is piped may come from Windows: a byte-order
    // mark in front and \r at the ends of lines are none of the text.
    Input read(const std::string & prompt, const std::string & further);

private:
    Input read_one(const std::string & prompt);

    bool is_first_ = true;  // nothing was read yet
};

}  // namespace pith::app
