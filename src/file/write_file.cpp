// write_file.cpp - writes beside the target, then renames.
#include "file/write_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace pith {

Status write_file(const std::string & path, std::string_view bytes) {
    const std::string unfinished = path + ".tmp";
    const auto failure = [&](int reason) {
        std::remove(unfinished.c_str());
        return Status(ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(reason));
    };
    std::FILE * file = std::fopen(unfinished.c_str(), "wb");
    if (file == nullptr) { return {ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(errno)}; }
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    const int write_error = errno;
    const bool closed = std::fclose(file) == 0;
    if (!written || !closed) { return failure(written ? errno : write_error); }
    if (std::rename(unfinished.c_str(), path.c_str()) != 0) { return failure(errno); }
    return {};
}

}  // namespace pith
