// read_gguf_headers.h - what Pith reads of a GGUF file before it computes anything, told as what went wrong.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith::testing {

// Opens the file as a model, as an adapter and as gates. What is refused is right; the result is empty unless a refusal is no
// clear line.
std::string read_gguf_headers(const std::string & path);

// Empty, or what is wrong with the line that says why something was refused.
std::string fault(const Status & status);

}  // namespace pith::testing
