// read_gguf.h - all that Pith does with a GGUF file somebody hands it, told as what went wrong.
#pragma once

#include <string>

namespace pith::testing {

// read_gguf_headers(), and where the file is taken for a model: loads it, feeds a few tokens, and turns a text into tokens and
// back. What is refused is right; the result is empty unless a refusal is no clear line.
std::string read_gguf(const std::string & path);

}  // namespace pith::testing
