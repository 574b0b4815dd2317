// commands.h - the subcommands of `pith`: one file each; main.cpp adds them all.
// Each adds its options to `root` and, when it was chosen, runs and sets exit_code: 0, or what errors.h says.
#pragma once

#include <CLI/CLI.hpp>

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
void add_bench_command(CLI::App & root, int & exit_code);
void add_train_command(CLI::App & root, int & exit_code);
void add_calibrate_command(CLI::App & root, int & exit_code);
void add_inspect_command(CLI::App & root, int & exit_code);
void add_eval_command(CLI::App & root, int & exit_code);
void add_study_command(CLI::App & root, int & exit_code);
void add_demo_command(CLI::App & root, int & exit_code);
void add_make_model_command(CLI::App & root, int & exit_code);
void add_completion_command(CLI::App & root, int & exit_code);  // after all others: these two read what was added
void add_man_command(CLI::App & root, int & exit_code);

}  // namespace pith::app
