// can_write.cpp - makes a file without a name where the one that is wanted is to lie.
#include "file/can_write.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "file/link_target.h"

namespace pith {
namespace {

// As mkstemp has it: a file descriptor, or -1.
int open_without_trace(const std::string & path) {
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (folder.empty()) { folder = "."; }
    const int file = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, S_IRUSR | S_IWUSR);
    const bool has_none = file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
    if (!has_none) { return file; }
    std::string beside = path + ".XXXXXX";  // a process that is killed right now leaves it
    const int named = mkstemp(beside.data());
    if (named >= 0) { unlink(beside.c_str()); }
    return named;
}

// 0, or errno.
int reason_against(const std::string & path) {
    struct stat info {};
    if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) { return EISDIR; }
    const int file = open_without_trace(path);
    if (file < 0) { return errno; }
    close(file);
    const std::string beside = path + ".tmp";  // as long a name as will be wanted
    return lstat(beside.c_str(), &info) == 0 || errno == ENOENT ? 0 : errno;
}

}  // namespace

Status check_can_write(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(const std::string target, link_target(path));
    const int reason = reason_against(target);
    if (reason == 0) { return {}; }
    return {ErrorCode::kIo, "'" + path + "' cannot be written: " + std::strerror(reason)};
}

}  // namespace pith
