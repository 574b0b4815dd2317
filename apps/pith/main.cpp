// main.cpp - `pith`: its commands, and the laboratory's, for which it starts pith-lab.
#include <CLI/CLI.hpp>
#include <string>

#include "app/shell/commands.h"
#include "app/shell/lab_program.h"
#include "app/shell/llama_flags.h"
#include "common/base/program.h"

namespace {

constexpr const char * kShortHelp =
    "pith - runs GGUF language models inside a hard KV-cache budget\n"
    "\n"
    "  pith run -m model.gguf -f book.txt -p \"Who is the narrator?\" --policy snapkv --budget 1024\n"
    "  pith run -m model.gguf -p \"Tell me a story.\"        the same without a budget: the full cache\n"
    "  pith chat -m model.gguf --policy snapkv --budget 4096   a conversation that never outgrows its memory\n"
    "  pith serve -m model.gguf --kv-budget 4G             OpenAI's HTTP interface, all caches inside one budget\n"
    "  pith compress -m model.gguf -f book.txt -o book.pith --budget 1024   a text read once, kept in a file\n"
    "  pith ask book.pith -p \"Who is the narrator?\"       asks about it, as often as you like\n"
    "  pith demo                                           what policies keep, on the built-in model\n"
    "  pith eval ruler -m model.gguf --context 4096 --policy snapkv,laprox --budget 20% -o run\n"
    "  pith study criticalkv -m model.gguf                a paper's tables, on your model\n"
    "  pith bench -m model.gguf --depth 0,4096 --policy full,snapkv --budget 1024\n"
    "  pith policies                                       every policy, its paper, its options\n"
    "  pith info -m model.gguf                             what is in a model, and what its cache costs\n"
    "  pith tokenize -m model.gguf -p \"some text\"          text as token ids\n"
    "  pith inspect --policy snapkv,laprox --budget 20%    what policies keep, and what that changes\n"
    "  pith inspect --gate model.gate.gguf -f book.txt     what trained gates keep of a text\n"
    "  pith calibrate heads -m model.gguf                  which heads retrieve: some policies want to know\n"
    "  pith make-model 1b --type q8_0 -o random.gguf       random weights of a real shape, for bench\n"
    "  pith train reference                                the built-in model, from scratch\n"
    "  pith train gate -m model.gguf -f text.jsonl         gates that learn what to evict; `train sft`: an adapter too\n"
    "\n"
    "`pith COMMAND --help` lists a command's options.\n";

void add_commands(CLI::App & root, int & exit_code, const pith::app::Arguments & arguments) {
    namespace app = pith::app;
    app::add_run_command(root, exit_code);
    app::add_chat_command(root, exit_code);
    app::add_serve_command(root, exit_code);
    app::add_compress_command(root, exit_code);
    app::add_ask_command(root, exit_code);
    app::add_cache_command(root, exit_code);
    app::add_info_command(root, exit_code);
    app::add_models_command(root, exit_code);
    app::add_policies_command(root, exit_code);
    app::add_tokenize_command(root, exit_code);
    app::add_bench_command(root, exit_code, arguments);
    app::add_lab_word(root, app::kTrainWord);
    app::add_demo_command(root, exit_code, arguments);
    app::add_lab_word(root, app::kEvalWord);
    app::add_lab_word(root, app::kStudyWord);
    app::add_lab_word(root, app::kInspectWord);
    app::add_calibrate_command(root, exit_code);
    app::add_make_model_command(root, exit_code);
    app::add_completion_command(root, exit_code);
    app::add_man_command(root, exit_code);
}

}  // namespace

int main(int argc, char ** argv) {
    const pith::app::Arguments arguments(argv + 1, argv + argc);
    const std::string of_lab = pith::app::lab_command(arguments);
    if (!of_lab.empty()) { return pith::app::start_lab(of_lab, arguments); }
    return pith::app::main_of({.version = "pith " PITH_VERSION,
                               .description = "Runs GGUF language models inside a hard KV-cache budget.",
                               .short_help = kShortHelp,
                               .add_commands = add_commands,
                               .llama = pith::app::llama_flags()},
                              arguments);
}
