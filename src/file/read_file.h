// read_file.h - a whole file in memory, of at most so many bytes. Stage: file.
// What has no end (/dev/zero), or is far too large for what is wanted, is refused before the memory is gone.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include "pith/status.h"

namespace pith {

inline constexpr size_t kMostFileBytes = size_t{1} << 30U;  // of texts and data files

// Errors: kNotFound (cannot be opened), kIo, kInvalidArgument (larger): path and reason.
Result<std::string> read_file(const std::string & path, size_t most_bytes = kMostFileBytes);
// What is left of an open file; name: as messages have it.
Result<std::string> read_file(std::FILE * file, const std::string & name, size_t most_bytes = kMostFileBytes);

}  // namespace pith
