// fingerprint.h - tells files and texts apart by what is in them. Stage: eval.
#pragma once

#include <string>
#include <string_view>

#include "pith/model.h"

namespace pith {

// FNV-1a, 16 hexadecimal digits.
std::string fingerprint(std::string_view bytes);

// The same of all that is in a file.
// Errors: kNotFound, kIo.   Cost: reads the file.
Result<std::string> file_fingerprint(const std::string & path);

// "llama, 853120 parameters, f32, 3b0c…": shape, and a hash of the file's size and of 64 blocks of 64 KiB spread over it, its
// beginning and its end among them (of a split model: of the first part).
// Errors: kNotFound, kIo.   Cost: 4 MiB of reading.
Result<std::string> model_fingerprint(const ModelInfo & model);

// Processor, cores and memory, for people: "AMD EPYC …, 2 cores, 7.8 GiB".
std::string machine_name();

}  // namespace pith
