// llama_flags.h - llama.cpp's flags as hands type them from habit: taken where Pith does the same, refused by name where not.
#pragma once

#include "common/options/read_arguments.h"

namespace pith::app {

// Of `pith run`, `pith chat` and `pith serve`.
LlamaFlags llama_flags();

}  // namespace pith::app
