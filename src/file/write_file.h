// write_file.h - a small file written whole or not at all. Stage: file.
#pragma once

#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith {

// Written to PATH.tmp, then renamed: a failure leaves what was there. Errors: kIo (path and reason).
Status write_file(const std::string & path, std::string_view bytes);

}  // namespace pith
