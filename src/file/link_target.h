// link_target.h - the file that is written where a path is a symbolic link. Stage: file.
#pragma once

#include <string>

#include "pith/status.h"

namespace pith {

// What is renamed over a link takes the link's place; so whoever writes goes to what it stands for, whether that is there yet
// or not. A path that is no link: the path. Errors: kIo: links that go in a circle; path and reason.
Result<std::string> link_target(const std::string & path);

}  // namespace pith
