// link_target.cpp - link by link, as the system follows them.
#include "file/link_target.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace pith {

Result<std::string> link_target(const std::string & path) {
    constexpr int kMostLinks = 40;  // as Linux has it
    std::filesystem::path at = path;
    std::error_code error;
    for (int i = 0; i < kMostLinks; ++i) {
        if (!std::filesystem::is_symlink(at, error)) { return at.string(); }
        const std::filesystem::path target = std::filesystem::read_symlink(at, error);
        if (error) { return at.string(); }
        at = at.parent_path() / target;  // an absolute one takes the place of all
    }
    return {ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(ELOOP)};
}

}  // namespace pith
