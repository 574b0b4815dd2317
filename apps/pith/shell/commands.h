// commands.h - the subcommands of `pith`: one file each; main.cpp adds them all.
// Each adds its options to `root` and, when it was chosen, runs and sets exit_code: 0, or what errors.h says. arguments: as
// they were given; where an option of the laboratory is among them, they go to pith-lab.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pith::app {

void add_run_command(CLI::App & root, int & exit_code);
void add_chat_command(CLI::App & root, int & exit_code);
void add_serve_command(CLI::App & root, int & exit_code);
void add_compress_command(CLI::App & root, int & exit_code);
void add_ask_command(CLI::App & root, int & exit_code);
void add_cache_command(CLI::App & root, int & exit_code);
void add_info_command(CLI::App & root, int & exit_code);
void add_models_command(CLI::App & root, int & exit_code);
void add_policies_command(CLI::App & root, int & exit_code);
void add_tokenize_command(CLI::App & root, int & exit_code);
void add_bench_command(CLI::App & root, int & exit_code, const std::vector<std::string> & arguments);
void add_calibrate_command(CLI::App & root, int & exit_code);
void add_demo_command(CLI::App & root, int & exit_code, const std::vector<std::string> & arguments);
void add_make_model_command(CLI::App & root, int & exit_code);
void add_completion_command(CLI::App & root, int & exit_code);  // after all others: these two read what was added
void add_man_command(CLI::App & root, int & exit_code);

}  // namespace pith::app
