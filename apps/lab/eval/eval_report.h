// eval_report.h - `pith eval report`: tables and figures of runs, from their answers.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_report_command(CLI::App & eval, int & exit_code);

}  // namespace pith::app
