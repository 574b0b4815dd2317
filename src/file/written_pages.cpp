// written_pages.cpp - the system is told that nobody wants them.
#include "file/written_pages.h"

#include <fcntl.h>
#include <unistd.h>

namespace pith {

void drop_written_pages(int file) {
#ifdef POSIX_FADV_DONTNEED
    static_cast<void>(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
#else
    static_cast<void>(file);
#endif
}

void drop_written_pages(const std::string & path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) { return; }
    if (fsync(file) == 0) { drop_written_pages(file); }
    close(file);
}

}  // namespace pith
