// completion.cpp - `pith completion SHELL`: prints the shell's completion of pith's commands, options and their values.
#include "app/shell/completion.h"

#include <cstdio>
#include <memory>
#include <string>

#include "app/shell/commands.h"
#include "app/shell/lab_program.h"
#include "common/base/errors.h"

namespace pith::app {

void add_completion_command(CLI::App & root, int & exit_code) {
    auto shell = std::make_shared<std::string>();
    CLI::App * command = root.add_subcommand("completion", "Print the completion of commands and options for a shell");
    command->add_option("SHELL", *shell, "bash, zsh or fish: source what comes out, or put it where the shell looks")
        ->required();
    command->callback([shell, &root, &exit_code] {
        const Command tree = all_programs_commands(root);
        std::string script;
        if (*shell == "bash") {
            script = bash_completion(tree);
        } else if (*shell == "zsh") {
            script = zsh_completion(tree);
        } else if (*shell == "fish") {
            script = fish_completion(tree);
        } else {
            exit_code = fail_usage("no completion for '" + *shell + "': give bash, zsh or fish");
            return;
        }
        std::fputs(script.c_str(), stdout);
        exit_code = kExitOk;
    });
}

}  // namespace pith::app
