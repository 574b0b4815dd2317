// find_llama_bench.h - the peer to measure against, where there is one.
#pragma once

#include "eval/bench.h"

namespace pith::app {

// In this order: the environment variable LLAMA_BENCH, PATH, and what scripts/setup unpacked. Empty command: none was found.
LlamaBench find_llama_bench();

}  // namespace pith::app
