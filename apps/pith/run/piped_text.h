// piped_text.h - what is piped into `pith run`: `cat book.txt | pith run -p "Who?"`, `echo "Hello" | pith run`.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith::app {

// The prompt, where nobody gave one.   Errors: kInvalidArgument: no text, no UTF-8; kIo.
Result<std::string> read_piped_prompt();

// The context of a prompt that was given: what comes through a pipe or out of a redirected file. Empty: standard input is
// neither. A socket is left alone: whatever started the program may hold it open and never write.
// Errors: kInvalidArgument: no UTF-8; kIo.
Result<std::string> read_piped_context();

}  // namespace pith::app
