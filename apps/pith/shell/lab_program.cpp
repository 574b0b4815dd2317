// lab_program.cpp - finds pith-lab, becomes it, asks it.
#include "app/shell/lab_program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "app/shell/pith_options.h"
#include "common/base/errors.h"
#include "common/base/program_file.h"
#include "engine/probe/child_process.h"

namespace pith::app {
namespace {

constexpr const char * kName = "pith-lab";
constexpr int kCannotStart = 126;  // as shells have it where a program is there and cannot be started

// Empty: it is not there.
std::filesystem::path find_lab() {
    std::vector<std::filesystem::path> places;
    std::filesystem::path folder = program_file().parent_path();
    std::error_code error;
    // Where a loader lies beside the program, bin/ has what starts it by that.
    if (!std::filesystem::exists(folder / "runtime", error)) { places.push_back(folder); }
    for (int i = 0; i < kFoldersAbove && folder.has_relative_path(); ++i) {
        folder = folder.parent_path();
        places.push_back(folder / "bin");
    }
    const char * path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string one; std::getline(folders, one, ':');) {
        if (!one.empty()) { places.emplace_back(one); }
    }
    for (const std::filesystem::path & place : places) {
        const std::filesystem::path program = place / kName;
        if (std::filesystem::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0) { return program; }
    }
    return {};
}

}  // namespace

std::string lab_command(const std::vector<std::string> & arguments) {
    const auto command = std::ranges::find_if(arguments, [](const std::string & word) { return !word.starts_with('-'); });
    if (command == arguments.end() || !is_lab_word(*command)) { return ""; }
    const bool alone = std::all_of(arguments.begin(), command, [](const std::string & flag) {
        return flag == "--verbose" || flag == "--help" || flag == "-h";
    });
    return alone ? "pith " + *command : "";
}

int start_lab(const std::string & what, const std::vector<std::string> & arguments) {
    const std::filesystem::path program = find_lab();
    if (program.empty()) {
        return fail({ErrorCode::kNotFound, "`" + what + "` wants " + kName +
                                               ", which is neither beside this program nor in PATH: install the package " +
                                               kName + ", or build it: scripts/build " + kName});
    }
    std::vector<std::string> words = {program.string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char *> pointers;
    for (std::string & word : words) { pointers.push_back(word.data()); }
    pointers.push_back(nullptr);
    execv(pointers.front(), pointers.data());
    fail({ErrorCode::kIo, "cannot start '" + program.string() + "': " + std::strerror(errno)});
    return kCannotStart;
}

void add_lab_word(CLI::App & root, const LabWord & word) {
    root.add_subcommand(word.name, word.help);
}

Command all_programs_commands(const CLI::App & root) {
    Command all = read_commands(root, pith_options());
    const std::filesystem::path program = find_lab();
    if (program.empty()) { return all; }
    const auto said = run_program({program.string(), "commands"}, "");
    const Command lab = said.ok() ? commands_of_json(said->text) : Command();
    for (const Command & command : lab.commands) {
        const auto listed = std::ranges::find(all.commands, command.name, &Command::name);
        if (listed != all.commands.end() && is_lab_word(command.last_word())) { *listed = command; }
    }
    return all;
}

}  // namespace pith::app
