// main.cpp - `pith-lab`: what judges, looks at, measures and trains models. `pith` starts it for these commands.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/shell/commands.h"
#include "app/shell/lab_options.h"
#include "common/base/errors.h"
#include "common/base/program.h"
#include "common/shell/command_tree.h"

namespace {

constexpr const char * kShortHelp =
    "pith-lab - the laboratory of pith, which starts it for these commands: `pith eval` is `pith-lab eval`\n"
    "\n"
    "  pith eval ruler -m model.gguf --context 4096 --policy snapkv,laprox --budget 20% -o run\n"
    "  pith study criticalkv -m model.gguf                a paper's tables, on your model\n"
    "  pith inspect --policy snapkv,laprox --budget 20%    what policies keep, and what that changes\n"
    "  pith inspect --gate model.gate.gguf -f book.txt     what trained gates keep of a text\n"
    "  pith train reference                                the built-in model, from scratch\n"
    "  pith train gate -m model.gguf -f text.jsonl         gates that learn what to evict; `train sft`: an adapter too\n"
    "  pith bench -m model.gguf --profile                  where a token's time goes\n"
    "  pith demo --perplexity                              how well policies predict held-out texts\n"
    "\n"
    "`pith COMMAND --help` lists a command's options.\n";

// `pith-lab commands`: for pith, whose completions and manual pages have them, too. Hidden: no person asks for it.
void add_commands_command(CLI::App & root) {
    CLI::App * command = root.add_subcommand("commands", "The commands and options as JSON")->group("");
    command->callback(
        [&root] { std::puts(pith::app::commands_json(pith::app::read_commands(root, pith::app::lab_options())).c_str()); });
}

void add_commands(CLI::App & root, int & exit_code, const pith::app::Arguments & /*arguments*/) {
    namespace app = pith::app;
    app::add_train_command(root, exit_code);
    app::add_eval_command(root, exit_code);
    app::add_study_command(root, exit_code);
    app::add_inspect_command(root, exit_code);
    app::add_bench_command(root, exit_code);
    app::add_demo_command(root, exit_code);
    add_commands_command(root);
}

}  // namespace

int main(int argc, char ** argv) {
    return pith::app::main_of({.version = "pith-lab " PITH_VERSION,
                               .description = "Judges, looks at, measures and trains models: the laboratory of pith.",
                               .short_help = kShortHelp,
                               .add_commands = add_commands},
                              pith::app::Arguments(argv + 1, argv + argc));
}
