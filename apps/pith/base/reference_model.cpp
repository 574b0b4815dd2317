// reference_model.cpp - finds what comes with the program, from where the program lies.
#include "app/base/reference_model.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/base/build_folders.h"

namespace pith::app {
namespace {

namespace fs = std::filesystem;

// bin/pith, lib/pith/pith and lib/x86_64-linux-gnu/pith/pith lie at most so many folders below the tree's root.
constexpr int kFoldersAbove = 3;

// The file that holds this code. /proc/self/exe would be the loader where that started the program (apps/pith/launcher.cpp).
fs::path program_file() {
    const auto here = reinterpret_cast<uintptr_t>(&program_file);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {  // "55d0-55e8 r-xp 00000000 08:01 123    /opt/pith/lib/pith/pith"
        char * end = nullptr;
        const uintptr_t begin = std::strtoull(line.c_str(), &end, 16);
        const uintptr_t behind = *end == '-' ? std::strtoull(end + 1, nullptr, 16) : 0;
        const size_t path = line.find('/');
        if (begin <= here && here < behind && path != std::string::npos) { return line.substr(path); }
    }
    std::error_code error;
    return fs::read_symlink("/proc/self/exe", error);
}

}  // namespace

Result<std::string> built_in_file(const std::string & name) {
    std::error_code error;
    fs::path folder = program_file().parent_path();
    for (int i = 0; i < kFoldersAbove && folder.has_relative_path(); ++i) {
        folder = folder.parent_path();
        const fs::path installed = folder / "share/pith/models" / name;
        if (fs::exists(installed, error)) { return installed.string(); }
    }
    const std::string source = source_models();
    const fs::path in_source = fs::path(source) / name;
    if (!source.empty() && fs::exists(in_source, error)) { return in_source.lexically_normal().string(); }
    const std::string where = source.empty() ? "share/pith/models above '" + program_file().string() + "'" : "'" + source + "'";
    return {ErrorCode::kNotFound, "'" + name + "', which comes with pith, is not in " + where};
}

Result<std::string> reference_model() {
    auto model = built_in_file("pith-reference.gguf");
    if (model.ok()) { return model; }
    return {ErrorCode::kNotFound, "the built-in model is missing: " + model.status().wording() +
                                      "; give another with -m, install pith again, or run `pith train reference`"};
}

}  // namespace pith::app
