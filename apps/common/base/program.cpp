// program.cpp - the command line, from the words to the exit code.
#include "common/base/program.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "common/base/args.h"
#include "common/base/errors.h"
#include "common/base/help_text.h"
#include "common/options/options.h"
#include "core/text.h"
#include "pith/log.h"

namespace pith::app {
namespace {

// Log lines of the libraries come out only on request: an error's one line says what matters.
void print_log(LogLevel level, std::string_view line) {
    const char * name = level == LogLevel::kError ? "error" : level == LogLevel::kWarning ? "warning" : "info";
    std::fprintf(stderr, "pith: [%s] %s\n", name, without_controls(line).c_str());
}

int read_and_run(const Program & program, const Arguments & arguments) {
    CLI::App root{program.description};
    root.name("pith");
    root.formatter(std::make_shared<HelpText>());
    root.footer("`pith COMMAND --help` lists a command's options; `pith` alone shows examples.");
    root.set_version_flag("--version", program.version);
    root.require_subcommand(0, 1);
    root.fallthrough();
    root.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as llama.cpp does
    constexpr const OptionRow & verbose = option("--verbose");
    root.add_flag_callback(
        std::string(verbose.names), [] { set_log_sink(print_log); }, std::string(verbose.help));
    int exit_code = kExitOk;
    program.add_commands(root, exit_code, arguments);
    refuse_empty_values(root);
    const auto read = read_arguments(root, arguments, program.llama);
    if (!read.ok()) { return fail_usage(read.status()); }
    try {
        root.parse(Arguments(read->rbegin(), read->rend()));  // CLI11 wants the last one first
    } catch (const CLI::Success & success) {
        return root.exit(success);  // --help, --version
    } catch (const CLI::RuntimeError & done) {
        return root.exit(done);  // a flag that ends the command has said what it had to
    } catch (const CLI::ParseError & error) { return fail_usage(usage_message(root, error, *read)); }
    if (root.get_subcommands().empty()) { std::fputs(program.short_help, stdout); }
    return exit_code;
}

// What could not be written has not been said, whatever was computed: the exit code must tell.
int finish(int exit_code) {
    errno = 0;
    const bool flushed = std::fflush(stdout) == 0;
    if ((flushed && std::ferror(stdout) == 0) || exit_code != kExitOk) { return exit_code; }
    const std::string why = errno != 0 ? std::string(": ") + std::strerror(errno) : "";
    return fail({ErrorCode::kIo, "standard output cannot be written" + why});
}

}  // namespace

int main_of(const Program & program, const Arguments & arguments) {
    // A limit on the size of files (ulimit -f) shows as a failed write, which says what to do, and not as a signal.
    std::signal(SIGXFSZ, SIG_IGN);
    try {
        return finish(read_and_run(program, arguments));
    } catch (const std::bad_alloc &) {
        return fail(
            {ErrorCode::kOutOfMemory, "out of memory: use a smaller --budget, --chunk or --ctx-size, or a smaller model"});
    } catch (const std::exception & error) {
        return fail({ErrorCode::kInternal, std::string("internal error: ") + error.what()});
    }
}

}  // namespace pith::app
