// failing_files.cpp - stands in front of the calls. A program's own definitions come before the library's.
#include "file/failing_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace pith::testing {
namespace {

struct Plan {
    int n_left = 0;  // calls until one fails; 0: none does
    bool and_all_after = false;
    bool failed = false;
};
thread_local Plan plan;

bool fails_now() {
    if (plan.n_left > 0 && --plan.n_left == 0) {
        plan.failed = true;
        errno = ENOSPC;
        return true;
    }
    if (plan.failed && plan.and_all_after) {
        errno = ENOSPC;
        return true;
    }
    return false;
}

// The program's own output is none of them; nor is what is read.
bool is_written_file(int file) {
    struct stat info {};
    return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && file > STDERR_FILENO &&
           (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

template <class F>
F * next_of(const char * name) {
    return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

}  // namespace

void fail_files_at(int k, bool and_all_after) {
    plan = {k, and_all_after, false};
}

bool stop_failing_files() {
    const bool failed = plan.failed;
    plan = {};
    return failed;
}

}  // namespace pith::testing

using pith::testing::fails_now;
using pith::testing::is_written_file;
using pith::testing::next_of;

extern "C" {

ssize_t write(int file, const void * data, size_t n) {
    static auto * const next = next_of<ssize_t(int, const void *, size_t)>("write");
    if (n == 0 || !is_written_file(file) || !fails_now()) { return next(file, data, n); }
    static_cast<void>(next(file, data, n / 2));
    errno = ENOSPC;
    return -1;
}

size_t fwrite(const void * data, size_t size, size_t n, FILE * file) {
    static auto * const next = next_of<size_t(const void *, size_t, size_t, FILE *)>("fwrite");
    if (n == 0 || !is_written_file(fileno(file)) || !fails_now()) { return next(data, size, n, file); }
    const size_t written = next(data, size, n / 2, file);
    errno = ENOSPC;
    return written;
}

int fclose(FILE * file) {
    static auto * const next = next_of<int(FILE *)>("fclose");
    const bool fails = is_written_file(fileno(file)) && fails_now();
    const int closed = next(file);
    if (!fails) { return closed; }
    errno = ENOSPC;
    return EOF;
}

int fsync(int file) {
    if (fails_now()) { return -1; }
    static auto * const next = next_of<int(int)>("fsync");
    return next(file);
}

int ftruncate(int file, off_t length) noexcept {
    if (fails_now()) { return -1; }
    static auto * const next = next_of<int(int, off_t)>("ftruncate");
    return next(file, length);
}

int rename(const char * from, const char * to) noexcept {
    if (fails_now()) { return -1; }
    static auto * const next = next_of<int(const char *, const char *)>("rename");
    return next(from, to);
}

int symlink(const char * target, const char * link) noexcept {
    if (fails_now()) { return -1; }
    static auto * const next = next_of<int(const char *, const char *)>("symlink");
    return next(target, link);
}

}  // extern "C"
