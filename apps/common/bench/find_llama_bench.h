// find_llama_bench.h - the peer to measure against, where there is one.
#pragma once

#include <string>

#include "engine/probe/bench.h"

namespace pith::app {

// In this order: the environment variable LLAMA_BENCH, PATH, and what scripts/setup unpacked. Empty command: none was found.
LlamaBench find_llama_bench();

// Another of llama.cpp's programs: in PATH, or unpacked.
LlamaBench find_llama_program(const std::string & name);

}  // namespace pith::app
