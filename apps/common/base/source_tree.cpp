// source_tree.cpp - the folders that CMake names; compiled a second time, without them, for the installed program.
#include "common/base/source_tree.h"

namespace pith::app {

#ifdef PITH_INSTALLED_PROGRAM

std::string source_models() {
    return {};
}

std::string unpacked_packages() {
    return {};
}

#else

std::string source_models() {
    return PITH_SOURCE_MODELS;
}

std::string unpacked_packages() {
    return PITH_DEPS_FOLDER;
}

#endif

}  // namespace pith::app
