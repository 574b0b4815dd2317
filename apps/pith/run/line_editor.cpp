// line_editor.cpp - libedit at a terminal where it is built in, std::getline else.
#include "app/run/line_editor.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#ifdef PITH_WITH_EDITLINE
#include <editline/readline.h>

#include <cstdlib>
#include <memory>
#endif

#include "common/base/interrupt.h"

namespace pith::app {

LineEditor::Input LineEditor::read_one(const std::string & prompt) {
    const WakeReads wake;
    every_interrupt() = false;
    const bool at_terminal = isatty(STDIN_FILENO) != 0;
#ifdef PITH_WITH_EDITLINE
    if (at_terminal && isatty(STDOUT_FILENO) != 0) {
        struct Free {
            void operator()(char * line) const { std::free(line); }  // libedit's malloc
        };
        const std::unique_ptr<char, Free> line(readline(prompt.c_str()));
        if (every_interrupt()) { return {What::kInterrupt, ""}; }
        if (!line) { return {What::kEnd, ""}; }
        if (*line != '\0') { add_history(line.get()); }
        return {What::kLine, line.get()};
    }
#endif
    if (at_terminal) {
        std::fputs(prompt.c_str(), stdout);
        std::fflush(stdout);
    }
    std::string line;
    const bool read = static_cast<bool>(std::getline(std::cin, line));
    if (every_interrupt()) {
        std::cin.clear();
        return {What::kInterrupt, ""};
    }
    if (!read) { return {What::kEnd, ""}; }
    return {What::kLine, line};
}

LineEditor::Input LineEditor::read(const std::string & prompt, const std::string & further) {
    Input input = read_one(prompt);
    while (input.what == What::kLine && input.text.ends_with('\\')) {
        input.text.back() = '\n';
        const Input next = read_one(further);
        if (next.what == What::kInterrupt) { return next; }
        if (next.what == What::kEnd) { break; }
        input.text += next.text;
    }
    return input;
}

}  // namespace pith::app
