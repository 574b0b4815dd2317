// program_file.cpp - asks the kernel which file this code was mapped from.
#include "common/base/program_file.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

namespace pith::app {

// By the file that holds this code: /proc/self/exe would be the loader where that started the program
// (apps/common/launcher.cpp).
std::filesystem::path program_file() {
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
    return std::filesystem::read_symlink("/proc/self/exe", error);
}

}  // namespace pith::app
