// ask.cpp - `pith ask`: questions on a text that was compressed before, or the next words of a conversation that was saved.
// It is `pith run --cache`, with the file first and the model found by it.
#include <memory>

#include "app/run/run.h"
#include "app/run/run_flags.h"
#include "app/shell/commands.h"

namespace pith::app {

void add_ask_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = root.add_subcommand("ask", "Ask about a text that `pith compress` has read");
    command->add_option("FILE", flags->cache, "A cache file: of `pith compress`, --save-cache, or /save in `pith chat`")
        ->required();
    flags->add_answer_options(*command);
    command->add_option("-t,--threads", flags->session.n_threads, "Threads (default: one per core; 1 for models under 32 MiB)");
    command->add_option("-c,--ctx-size", flags->session.ctx_size, "Positions at most (default: as many as come)");
    command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace pith::app
