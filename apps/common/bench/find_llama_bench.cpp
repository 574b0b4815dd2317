// find_llama_bench.cpp - looks for llama.cpp's programs.
#include "common/bench/find_llama_bench.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "common/base/source_tree.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path & path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Unpacked packages start through the loader that came with them, and look for their back ends in the working folder:
// the one compiled in is the system's.
LlamaBench unpacked(const fs::path & root, const std::string & name) {
    const fs::path program = root / "usr/bin" / name;
    std::error_code error;
    for (const auto & lib : fs::directory_iterator(root / "usr/lib", error)) {  // "x86_64-linux-gnu"
        if (!lib.path().filename().string().ends_with("-linux-gnu") || !is_program(program)) { continue; }
        for (const auto & file : fs::directory_iterator(lib.path(), error)) {
            if (!file.path().filename().string().starts_with("ld-linux-")) { continue; }
            const std::string libraries = lib.path().string() + ":" + (lib.path() / "llama").string();
            return {{file.path().string(), "--library-path", libraries, program.string()},
                    (lib.path() / "ggml/backends0").string()};
        }
    }
    return {};
}

}  // namespace

LlamaBench find_llama_bench() {
    if (const char * given = std::getenv("LLAMA_BENCH"); given != nullptr && is_program(given)) { return {{given}, ""}; }
    return find_llama_program("llama-bench");
}

LlamaBench find_llama_program(const std::string & name) {
    const char * path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (is_program(fs::path(folder) / name)) { return {{(fs::path(folder) / name).string()}, ""}; }
    }
    const std::string packages = unpacked_packages();
    return packages.empty() ? LlamaBench{} : unpacked(fs::path(packages) / "forky", name);
}

}  // namespace pith::app
