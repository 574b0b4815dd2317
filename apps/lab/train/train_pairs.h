// train_pairs.h - `pith train pairs`.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_train_pairs_command(CLI::App & train, int & exit_code);

}  // namespace pith::app
