// main.cpp - `pith`: finds the subcommand, and turns whatever goes wrong into one line and an exit code.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "app/base/args.h"
#include "app/base/commands.h"
#include "app/base/errors.h"
#include "app/shell/llama_flags.h"
#include "core/text.h"
#include "pith/log.h"

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

// Log lines of the libraries come out only on request: an error's one line says what matters.
void print_log(pith::LogLevel level, std::string_view line) {
    const char * name = level == pith::LogLevel::kError ? "error" : level == pith::LogLevel::kWarning ? "warning" : "info";
    std::fprintf(stderr, "pith: [%s] %s\n", name, pith::without_controls(line).c_str());
}

int run(const std::vector<std::string> & arguments) {
    namespace app = pith::app;
    CLI::App root{"Runs GGUF language models inside a hard KV-cache budget."};
    root.name("pith");
    root.footer("`pith COMMAND --help` lists a command's options; `pith` alone shows examples.");
    root.set_version_flag("--version", "pith " PITH_VERSION);
    root.require_subcommand(0, 1);
    root.fallthrough();
    root.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as llama.cpp does
    root.add_flag_callback(
        "--verbose", [] { pith::set_log_sink(print_log); }, "Print the libraries' log lines on stderr");
    int exit_code = app::kExitOk;
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
    app::add_bench_command(root, exit_code);
    app::add_train_command(root, exit_code);
    app::add_demo_command(root, exit_code);
    app::add_eval_command(root, exit_code);
    app::add_study_command(root, exit_code);
    app::add_inspect_command(root, exit_code);
    app::add_calibrate_command(root, exit_code);
    app::add_make_model_command(root, exit_code);
    app::add_completion_command(root, exit_code);
    app::add_man_command(root, exit_code);
    app::refuse_empty_values(root);
    const auto adopted = app::adopt_llama_flags(root, arguments);
    if (!adopted.ok()) { return app::fail_usage(adopted.status()); }
    std::vector<std::string> rewritten;
    try {
        rewritten = app::rewrite_arguments(*adopted);
        root.parse(std::vector<std::string>(rewritten.rbegin(), rewritten.rend()));  // CLI11 wants the last one first
    } catch (const CLI::Success & success) {
        return root.exit(success);  // --help, --version
    } catch (const CLI::RuntimeError & done) {
        return root.exit(done);  // a flag that ends the command has said what it had to
    } catch (const CLI::ParseError & error) { return app::fail_usage(app::usage_message(root, error, rewritten)); }
    if (root.get_subcommands().empty()) { std::fputs(kShortHelp, stdout); }
    return exit_code;
}

// What could not be written has not been said, whatever was computed: the exit code must tell.
int finish(int exit_code) {
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    if ((flushed && std::ferror(stdout) == 0) || exit_code != pith::app::kExitOk) { return exit_code; }
    const std::string why = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
    return pith::app::fail({pith::ErrorCode::kIo, "standard output cannot be written" + why});
}

}  // namespace

int main(int argc, char ** argv) {
    try {
        return finish(run(std::vector<std::string>(argv + 1, argv + argc)));
    } catch (const std::bad_alloc &) {
        return pith::app::fail({pith::ErrorCode::kOutOfMemory,
                                "out of memory: use a smaller --budget, --chunk or --ctx-size, or a smaller model"});
    } catch (const std::exception & error) {
        return pith::app::fail({pith::ErrorCode::kInternal, std::string("internal error: ") + error.what()});
    }
}
