// calibrate.h - the subcommands of `pith calibrate`.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_calibrate_importance_command(CLI::App & calibrate, int & exit_code);

}  // namespace pith::app
