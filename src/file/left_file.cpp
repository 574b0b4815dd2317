// left_file.cpp - a lock first, then the name.
#include "file/left_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace pith {

bool is_at(int file, const std::string & path) {
    struct stat opened {};
    struct stat named {};
    return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

bool remove_unless_locked(const std::string & path) {
    // Opening a pipe waits for whoever writes to it, unless told not to.
    const int file = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) { return errno == ENOENT; }
    struct stat info {};
    const bool is_plain = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
    const bool is_free = is_plain && flock(file, LOCK_EX | LOCK_NB) == 0;
    if (is_free && is_at(file, path)) { unlink(path.c_str()); }  // else its process has renamed it meanwhile
    close(file);
    return is_free;
}

}  // namespace pith
