// train_gate.h - `pith train gate`, under `pith train`.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_train_gate_command(CLI::App & train, int & exit_code);

}  // namespace pith::app
