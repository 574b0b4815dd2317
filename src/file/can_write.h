// can_write.h - whether a file can be written, asked before the work whose result it is to hold. Stage: file.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith {

// Leaves no trace. Errors: kIo: the folder is missing or closed, the path is a folder; path and reason.
Status check_can_write(const std::string & path);

}  // namespace pith
