// piped_text.cpp - standard input, where it is one.
#include "app/run/piped_text.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/read_text.h"

namespace pith::app {
namespace {

constexpr int kPatienceMs = 2000;  // without a word about what is waited for

bool is_pipe_or_file() {
    struct stat about {};
    return fstat(STDIN_FILENO, &about) == 0 && (S_ISFIFO(about.st_mode) || S_ISREG(about.st_mode));
}

void tell_that_it_waits() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, kPatienceMs) == 0) {
        std::fputs("pith: waiting for the text that is piped in; write < /dev/null where there is none\n", stderr);
    }
}

}  // namespace

// `echo` ends it with a line break that nobody means.
Result<std::string> read_piped_prompt() {
    PITH_ASSIGN_OR_RETURN(std::string text, read_plain_text("-"));
    if (text.ends_with('\n')) { text.pop_back(); }
    if (text.empty()) {
        return {ErrorCode::kInvalidArgument,
                "the prompt is empty: standard input has no text; give some there, or with -p or -f"};
    }
    return text;
}

Result<std::string> read_piped_context() {
    if (!is_pipe_or_file()) { return std::string(); }
    tell_that_it_waits();
    return read_plain_text("-");
}

}  // namespace pith::app
