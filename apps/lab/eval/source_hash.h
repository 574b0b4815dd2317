// source_hash.h - of the sources that this program's answers hang on: which build a run was made by.
#pragma once

namespace pith::app {

extern const char * const kSourceHash;

}  // namespace pith::app
