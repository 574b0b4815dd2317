// train_sft.h - `pith train sft`, under `pith train`.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_train_sft_command(CLI::App & train, int & exit_code);

}  // namespace pith::app
