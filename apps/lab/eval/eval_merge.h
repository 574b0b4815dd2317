// eval_merge.h - `pith eval merge`: the parts of a run that was divided become that run.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_merge_command(CLI::App & eval, int & exit_code);

}  // namespace pith::app
