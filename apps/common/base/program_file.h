// program_file.h - where the running program lies: what comes with it is found from there.
#pragma once

#include <filesystem>

namespace pith::app {

// bin/pith, lib/pith/pith and lib/x86_64-linux-gnu/pith/pith lie at most so many folders below the tree's root.
inline constexpr int kFoldersAbove = 3;

std::filesystem::path program_file();

}  // namespace pith::app
