// commands.h - the subcommands of `pith-lab`: one file each; main.cpp adds them all.
// Each adds its options to `root` and, when it was chosen, runs and sets exit_code: 0, or what errors.h says.
#pragma once

#include <CLI/CLI.hpp>

namespace pith::app {

void add_train_command(CLI::App & root, int & exit_code);
void add_eval_command(CLI::App & root, int & exit_code);
void add_study_command(CLI::App & root, int & exit_code);
void add_inspect_command(CLI::App & root, int & exit_code);
void add_bench_command(CLI::App & root, int & exit_code);
void add_demo_command(CLI::App & root, int & exit_code);

}  // namespace pith::app
