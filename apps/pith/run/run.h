// run.h - `pith run`, for those that ask in other words.
#pragma once

#include "app/run/run_flags.h"

namespace pith::app {

// From flags to answers; returns the exit code.
int run_command(RunFlags flags);

}  // namespace pith::app
