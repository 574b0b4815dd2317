// completion_test.cpp - `pith completion` and `pith man`: what they print holds every option, and works in a shell.
#include <array>
#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

#include "cli/run_process.h"

namespace pith::testing::completion_test {
namespace {

std::vector<std::string> lines_of(const std::string & text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) { lines.push_back(line); }
    return lines;
}

// "pith train gate" → {"train", "gate"}
std::vector<std::string> words_of(const std::string & command) {
    std::istringstream in(command);
    std::vector<std::string> words;
    for (std::string word; in >> word;) { words.push_back(word); }
    words.erase(words.begin());
    return words;
}

std::vector<std::string> all_pages() {
    return lines_of(run_pith({"man", "--list"}).out);
}

// Names at the beginning of the help's lines: "  -m,--model TEXT  GGUF file" has two.
std::set<std::string> options_in_help(const std::vector<std::string> & command) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    std::set<std::string> names;
    const std::regex name("--?[a-zA-Z][a-z0-9-]*");
    for (const std::string & line : lines_of(run_pith(arguments).out)) {
        if (!line.starts_with("  -")) { continue; }
        const std::string head = line.substr(2, line.find(' ', 2) - 2);
        for (std::sregex_iterator it(head.begin(), head.end(), name), end; it != end; ++it) { names.insert(it->str()); }
    }
    return names;
}

bool has_command(const std::string & name) {
    return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

std::string output_of(const std::string & shell_command) {
    std::string out;
    FILE * pipe = popen(shell_command.c_str(), "r");
    std::array<char, 4096> part{};
    while (pipe != nullptr && std::fgets(part.data(), part.size(), pipe) != nullptr) { out += part.data(); }
    if (pipe != nullptr) { pclose(pipe); }
    return out;
}

// A file with what `pith ARGUMENTS…` printed.
std::string printed_to(const TempFolder & folder, const std::string & name, const std::vector<std::string> & arguments) {
    const Outcome outcome = run_pith(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::ofstream(folder.file(name)) << outcome.out;
    return folder.file(name);
}

// What bash offers behind `line`, separated by spaces.
std::string bash_offers(const std::string & script, const std::string & line) {
    return output_of("bash -c 'source " + script + "; compopt() { :; }; COMP_LINE=\"" + line +
                     "\"; COMP_POINT=${#COMP_LINE}; _pith; echo \" ${COMPREPLY[*]} \"' 2>&1");
}

TEST(Completion, InBashOffersCommandsOptionsAndChoices) {
    if (!has_command("bash")) { GTEST_SKIP() << "no bash"; }
    const TempFolder folder;
    const std::string script = printed_to(folder, "pith.bash", {"completion", "bash"});
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"pith ru", " run "},
        {"pith train ga", " gate "},
        {"pith run --pol", " --policy "},
        {"pith run --policy sna", " snapkv "},
        {"pith run --policy=sna", " snapkv "},
        {"pith run --policy snapkv+fastc", " snapkv+fastcaote "},
        {"pith run --policy snapkv:window=16+fastc", " 16+fastcaote "},  // bash itself splits at ':' and '='
        {"pith eval ruler --policy snapkv,lap", " snapkv,laprox "},
        {"pith run --cache-type-k q", " q8_0 q4_0 "},
        {"pith run --prefill ", " auto one-shot chunked "},
        {"pith train gate --kind l", " linear "},
        {"pith run -p train --pol", " --policy "},  // a prompt that is a command's name changes nothing
        {"pith train --pol", "  "},                 // no such option there
        {"pith inspect --distance j", " jsd "},
        {"pith inspect --figure k", " kept "},
        {"pith inspect --figure al", "  "},
        {"", "  "},
        {"pith", "  "},  // the command's own name is not ours to complete
    };
    for (const auto & [line, offered] : cases) { EXPECT_EQ(bash_offers(script, line), offered + "\n") << line; }
}

TEST(Completion, InBashOffersFilesForFilesAndFoldersForFolders) {
    if (!has_command("bash")) { GTEST_SKIP() << "no bash"; }
    const TempFolder folder;
    const std::string script = printed_to(folder, "pith.bash", {"completion", "bash"});
    std::ofstream(folder.file("model.gguf")) << "x";
    std::filesystem::create_directory(folder.file("models"));
    const std::string begin = folder.file("mod");
    EXPECT_NE(bash_offers(script, "pith run -m " + begin).find("model.gguf "), std::string::npos);
    EXPECT_EQ(bash_offers(script, "pith eval --data " + begin), " " + folder.file("models") + " \n");
    EXPECT_NE(bash_offers(script, "pith info " + begin).find("model.gguf "), std::string::npos);
    EXPECT_NE(bash_offers(script, "pith inspect --data " + begin).find("model.gguf "), std::string::npos);
}

// The function that completes one command: "pith train gate".
std::string own_part_of_zsh(const std::string & script, const std::string & command) {
    const std::string name = "_pith_of_" + std::regex_replace(command, std::regex(" "), "_");
    const size_t begin = script.find("\n" + name + "() {\n");
    EXPECT_NE(begin, std::string::npos) << command;
    return begin == std::string::npos ? "" : script.substr(begin, script.find("\n}\n", begin) - begin);
}

std::string own_part_of_fish(const std::string & script, const std::string & command) {
    std::string part;
    for (const std::string & line : lines_of(script)) {
        if (line.starts_with("complete -c pith -n 'test (__pith_command) = \"" + command + "\"'")) { part += line + "\n"; }
    }
    return part;
}

TEST(Completion, OffersEveryOptionOfEveryCommand) {
    if (!has_command("bash")) { GTEST_SKIP() << "no bash"; }
    const TempFolder folder;
    const std::string script = printed_to(folder, "pith.bash", {"completion", "bash"});
    const std::string zsh = run_pith({"completion", "zsh"}).out, fish = run_pith({"completion", "fish"}).out;
    for (const std::string & page : all_pages()) {
        const std::string offered = bash_offers(script, page + " -");
        const std::set<std::string> options = options_in_help(words_of(page));
        ASSERT_GE(options.size(), 2U) << page;
        const std::string in_zsh = own_part_of_zsh(zsh, page), in_fish = own_part_of_fish(fish, page);
        for (const std::string & option : options) {
            EXPECT_NE(offered.find(" " + option + " "), std::string::npos) << page << " " << option;
            EXPECT_TRUE(std::regex_search(in_zsh, std::regex("'(\\*|\\([^)]*\\))" + option + "[=+\\[]")))
                << page << " " << option;
            const bool is_long = option.starts_with("--");
            EXPECT_NE(in_fish.find((is_long ? " -l " + option.substr(2) : " -s " + option.substr(1)) + " "), std::string::npos)
                << page << " " << option;
        }
    }
}

TEST(Completion, IsWhatZshAndFishCanRead) {
    if (!has_command("zsh") && !has_command("fish")) { GTEST_SKIP() << "no zsh, no fish"; }
    const TempFolder folder;
    if (has_command("zsh")) {
        const std::string script = printed_to(folder, "_pith", {"completion", "zsh"});
        EXPECT_EQ(output_of("zsh -n " + script + " 2>&1"), "");
    }
    if (has_command("fish")) {
        const std::string script = printed_to(folder, "pith.fish", {"completion", "fish"});
        const std::string offers =
            output_of("HOME=" + folder.file("") + " fish --no-config -c 'source " + script +
                      "; complete -C\"pith run --policy snapkv+fastc\"; complete -C\"pith train g\"' 2>&1");
        EXPECT_NE(offers.find("snapkv+fastcaote\t"), std::string::npos) << offers;
        EXPECT_NE(offers.find("gate\t"), std::string::npos) << offers;
    }
}

TEST(Completion, OfAnotherShellIsRefusedByName) {
    expect_error(run_pith({"completion", "tcsh"}), 2, {"tcsh", "bash, zsh or fish"});
}

TEST(ManualPages, HoldEveryOptionOfTheHelp) {
    for (const std::string & page : all_pages()) {
        std::vector<std::string> arguments = words_of(page);
        arguments.insert(arguments.begin(), "man");
        const std::string text = std::regex_replace(run_pith(arguments).out, std::regex(R"(\\-)"), "-");
        for (const std::string & option : options_in_help(words_of(page))) {
            EXPECT_NE(text.find("\\fB" + option + "\\fR"), std::string::npos) << page << " " << option;
        }
    }
}

TEST(ManualPages, AreSetWithoutAWarning) {
    if (!has_command("groff")) { GTEST_SKIP() << "no groff"; }
    const TempFolder folder;
    for (const std::string & page : all_pages()) {
        std::vector<std::string> arguments = words_of(page);
        arguments.insert(arguments.begin(), "man");
        const std::string file = printed_to(folder, "page.1", arguments);
        EXPECT_EQ(output_of("LC_ALL=C.UTF-8 groff -ww -k -man -Tutf8 -z " + file + " 2>&1"), "") << page;
    }
}

TEST(ManualPages, OfNoCommandIsAnErrorThatNamesTheNearest) {
    expect_error(run_pith({"man", "rum"}), 2, {"pith rum", "did you mean 'pith run'"});
}

}  // namespace
}  // namespace pith::testing::completion_test
