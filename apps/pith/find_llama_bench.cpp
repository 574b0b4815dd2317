// find_llama_bench.cpp - looks for llama-bench.
#include "find_llama_bench.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

namespace pith::app {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path & path) {
    std::error_code error;
    return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Unpacked packages start through the loader that came with them, and look for their back ends in the working folder:
// the one compiled in is the system's.
LlamaBench unpacked(const fs::path & root) {
    const fs::path lib = root / "usr/lib/x86_64-linux-gnu";
    const fs::path program = root / "usr/bin/llama-bench";
    const fs::path loader = lib / "ld-linux-x86-64.so.2";
    if (!is_program(program) || !is_program(loader)) { return {}; }
    return {{loader.string(), "--library-path", lib.string() + ":" + (lib / "llama").string(), program.string()},
            (lib / "ggml/backends0").string()};
}

}  // namespace

LlamaBench find_llama_bench() {
    if (const char * given = std::getenv("LLAMA_BENCH"); given != nullptr && is_program(given)) { return {{given}, ""}; }
    const char * path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (is_program(fs::path(folder) / "llama-bench")) { return {{(fs::path(folder) / "llama-bench").string()}, ""}; }
    }
    return unpacked(fs::path(PITH_DEPS_FOLDER) / "forky");
}

}  // namespace pith::app
