// escapes.h - "\n" as two characters, as people type them in a shell.
#pragma once

#include <string>
#include <string_view>

namespace pith::app {

// \n, \t, \r, \\, \", \' and \xHH as what they stand for, as llama.cpp has them; another backslash stays one.
std::string unescaped(std::string_view text);

}  // namespace pith::app
