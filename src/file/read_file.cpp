// read_file.cpp - asks for the size where there is one, and counts where there is none.
#include "file/read_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

namespace pith {
namespace {

constexpr size_t kMostDeviceBytes = size_t{16} << 20U;  // what devices give is seldom meant to be read whole

std::string mebibytes(size_t bytes) {
    return std::to_string(bytes >> 20U) + " MiB";
}

bool is_device(const struct stat & info, int fd) {
    return S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd) == 0);
}

}  // namespace

Result<std::string> read_file(std::FILE * file, const std::string & name, size_t most_bytes) {
    struct stat info {};
    const bool known = fstat(fileno(file), &info) == 0;
    if (known && S_ISREG(info.st_mode) && static_cast<size_t>(info.st_size) > most_bytes) {
        return {ErrorCode::kInvalidArgument, name + " has " + mebibytes(static_cast<size_t>(info.st_size)) + ": more than " +
                                                 mebibytes(most_bytes) + " are not read; give a smaller file"};
    }
    const bool device = known && is_device(info, fileno(file));
    if (device) { most_bytes = std::min(most_bytes, kMostDeviceBytes); }
    std::string text;
    std::vector<char> block(1U << 16U);
    size_t n = 0;
    errno = 0;
    while ((n = std::fread(block.data(), 1, block.size(), file)) > 0) {
        if (n > most_bytes - text.size()) {
            return {ErrorCode::kInvalidArgument, name + " does not end after " + mebibytes(most_bytes) + ": give " +
                                                     (device ? "a file, not a device" : "less text")};
        }
        text.append(block.data(), n);
    }
    if (std::ferror(file) != 0) { return {ErrorCode::kIo, name + " cannot be read: " + std::strerror(errno)}; }
    return text;
}

Result<std::string> read_file(const std::string & path, size_t most_bytes) {
    struct Close {
        void operator()(std::FILE * file) const { std::fclose(file); }
    };
    const std::string name = "'" + path + "'";
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
    if (!file) {
        const bool is_missing = errno == ENOENT || errno == ENOTDIR;
        return {is_missing ? ErrorCode::kNotFound : ErrorCode::kIo, name + " cannot be opened: " + std::strerror(errno)};
    }
    return read_file(file.get(), name, most_bytes);
}

}  // namespace pith
