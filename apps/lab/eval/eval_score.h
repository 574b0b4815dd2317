// eval_score.h - `pith eval score`: predictions made elsewhere, or by a run, scored by the task's own metric.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_score_command(CLI::App & eval, int & exit_code);

}  // namespace pith::app
