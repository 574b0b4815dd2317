// line_editor.h - a line from the user: with history and editing at a terminal, plain elsewhere.
#pragma once

#include <optional>
#include <string>

namespace pith::app {

class LineEditor {
public:
    enum class What { kLine, kInterrupt, kEnd };
    struct Input {
        What what = What::kEnd;
        std::string text;
    };

    // A line; several, where one ends in a backslash. kInterrupt: Ctrl-C. kEnd: Ctrl-D, or no more input.
    // prompt is shown at a terminal only, further for the lines that go on.
    Input read(const std::string & prompt, const std::string & further);

private:
    Input read_one(const std::string & prompt);
};

}  // namespace pith::app
