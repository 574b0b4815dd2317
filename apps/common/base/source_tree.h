// source_tree.h - the source tree's folders, for a program that runs where it was built. The installed program has none:
// it is linked with a source_tree.cpp that was compiled without them (apps/CMakeLists.txt).
#pragma once

#include <string>

namespace pith::app {

std::string source_models();      // models/; empty in an installed program
std::string unpacked_packages();  // what scripts/setup fetched; empty in an installed program

}  // namespace pith::app
