// can_write.cpp - makes a file beside the one that is wanted, and takes it away again.
#include "file/can_write.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace pith {

Status check_can_write(const std::string & path) {
    const auto failure = [&path](int reason) {
        return Status(ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(reason));
    };
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) { return failure(EISDIR); }
    std::string beside = path + std::string(".XXXXXX");  // mkstemp's
    const int fd = mkstemp(beside.data());
    if (fd < 0) { return failure(errno); }
    close(fd);
    unlink(beside.c_str());
    return {};
}

}  // namespace pith
