// ask.cpp - `pith ask`: questions on a text that was compressed before, or the next words of a conversation that was saved.
// It is `pith run --cache`, with the file first and the model found by it.
#include <memory>

#include "app/run/run.h"
#include "app/run/run_flags.h"
#include "app/shell/commands.h"
#include "common/options/options.h"

namespace pith::app {

void add_ask_command(CLI::App & root, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = root.add_subcommand("ask", "Ask about a text that `pith compress` has read");
    command->add_option("FILE", flags->cache, "A cache file: of `pith compress`, --save-cache, or /save in `pith chat`")
        ->required();
    flags->add_answer_options(*command);
    command->get_option("--prompt")->description("Question; may be repeated. Without it what is piped in is the question");
    add(*command, option("--threads"), flags->session.n_threads);
    add(*command, option("--ctx-size"), flags->session.ctx_size);
    command->callback([flags, &exit_code] { exit_code = run_command(*flags); });
}

}  // namespace pith::app
