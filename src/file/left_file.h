// left_file.h - files that a process left unfinished: it had them locked, and is gone, so that they are no more. Stage: file.
#pragma once

#include <string>

namespace pith {

// Whether the open file is still the one that the path names.
bool is_at(int file, const std::string & path);

// Removes the file, unless somebody has it locked (flock), or it is no plain file. false: it is still there.
bool remove_unless_locked(const std::string & path);

}  // namespace pith
