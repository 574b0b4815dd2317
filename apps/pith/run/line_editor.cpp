// line_editor.cpp - libedit at a terminal where it is built in, std::getline else.
#include "app/run/line_editor.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <utility>
#ifdef PITH_WITH_EDITLINE
#include <editline/readline.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#endif

#include "common/base/interrupt.h"
#include "common/base/read_text.h"

namespace pith::app {

#ifdef PITH_WITH_EDITLINE
namespace {

// libedit calls functions without an argument of their own: what they go by is the editor's that reads.
LineEditor::Complete g_complete;
std::vector<std::string> g_words;

char * next_word(const char * begun, int state) {
    static size_t at = 0;
    if (state == 0) { at = 0; }
    while (at < g_words.size()) {
        const std::string & word = g_words[at++];
        if (word.starts_with(begun)) { return strdup(word.c_str()); }
    }
    return nullptr;
}

char ** complete(const char * begun, int start, int /*end*/) {
    rl_attempted_completion_over = 1;  // nothing else is tried
    const LineEditor::Completions found = g_complete(std::string_view(rl_line_buffer, static_cast<size_t>(start)));
    g_words = found.words;
    return rl_completion_matches(begun, found.has_files ? rl_filename_completion_function : next_word);
}

}  // namespace

LineEditor::LineEditor(Complete complete_word) {
    if (!complete_word) { return; }
    g_complete = std::move(complete_word);
    rl_attempted_completion_function = complete;
    rl_completer_word_break_characters = const_cast<char *>(" \t\n");
}
#else
LineEditor::LineEditor(Complete /*complete*/) {}
#endif

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
        FILE * shown = isatty(STDOUT_FILENO) != 0 ? stdout : stderr;  // which may go elsewhere
        std::fputs(prompt.c_str(), shown);
        std::fflush(shown);
    }
    std::string line;
    const bool read = static_cast<bool>(std::getline(std::cin, line));
    if (every_interrupt()) {
        std::cin.clear();
        return {What::kInterrupt, ""};
    }
    if (!read) { return {What::kEnd, ""}; }
    if (std::exchange(is_first_, false)) { drop_byte_order_mark(line); }
    if (line.ends_with('\r')) { line.pop_back(); }
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
