// gguf_strings.h - a list of strings in the metadata of a GGUF file. Stage: file.
#pragma once

#include <string>
#include <vector>

namespace pith {

// Empty where the file or the list is not there, or is no list of strings.
// REQUIRES: parse_gguf() has accepted the file: ggml's reader, which this asks, aborts on some damaged headers.
std::vector<std::string> gguf_strings(const std::string & path, const char * key);

}  // namespace pith
