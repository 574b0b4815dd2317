// purity_test.cpp - the pure core sees no ggml: its sources include the standard library and each other, nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace pith::purity_test {
namespace {

TEST(PureCore, IncludesOnlyTheStandardLibraryAndItself) {
    const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
    const std::vector<std::string> own = {"pith/", "core/", "policy/"};
    int n_files = 0;
    for (const std::string & folder : own) {
        if (folder == "pith/") continue;
        const std::filesystem::path root = std::filesystem::path(PITH_SOURCE_DIR) / "src" / folder;
        if (!std::filesystem::exists(root)) continue;
        for (const auto & file : std::filesystem::recursive_directory_iterator(root)) {
            const auto extension = file.path().extension();
            if (extension != ".h" && extension != ".cpp" && extension != ".def") continue;
            ++n_files;
            std::ifstream in(file.path());
            for (std::string line; std::getline(in, line);) {
                std::smatch match;
                if (!std::regex_search(line, match, include)) continue;
                const std::string name = match[2];
                const bool standard =
                    match[1] == "<" && name.find('.') == std::string::npos && name.find('/') == std::string::npos;
                const bool ours = match[1] == "\"" && std::any_of(own.begin(), own.end(), [&](const std::string & prefix) {
                                      return name.starts_with(prefix);
                                  });
                EXPECT_TRUE(standard || ours) << file.path() << " includes " << name;
            }
        }
    }
    EXPECT_GT(n_files, 30);
}

// An error names the item, and whoever shows it says --budget, "kv_budget" or `budget`. llama-bench is started by its own
// flags.
TEST(Library, NamesNoFlagOfTheCommandLine) {
    const std::filesystem::path root = std::filesystem::path(PITH_SOURCE_DIR) / "src";
    const std::string of_llama_bench = "\"--no-warmup\"";
    const std::regex literal(R"re("(?:[^"\\]|\\.)*")re");
    const std::regex flag("--[a-z]");
    int n_files = 0;
    for (const auto & file : std::filesystem::recursive_directory_iterator(root)) {
        const auto extension = file.path().extension();
        if (extension != ".h" && extension != ".cpp" && extension != ".def") { continue; }
        ++n_files;
        std::ifstream in(file.path());
        int n_line = 0;
        for (std::string line; std::getline(in, line);) {
            ++n_line;
            if (line.find("--") == std::string::npos) { continue; }
            for (std::sregex_iterator text(line.begin(), line.end(), literal), end; text != end; ++text) {
                if (text->str() == of_llama_bench) { continue; }
                EXPECT_FALSE(std::regex_search(text->str(), flag))
                    << file.path() << ":" << n_line << ": name an item of core/items.h instead: " << line;
            }
        }
    }
    EXPECT_GT(n_files, 300);
}

}  // namespace
}  // namespace pith::purity_test
