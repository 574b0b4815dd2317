// read_text.h - text from a file or from standard input.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith::app {

// path "-": standard input. Errors: kNotFound, kIo, kInvalidArgument (not UTF-8: names path and byte); an empty file is no
// error.
Result<std::string> read_text(const std::string & path);

}  // namespace pith::app
