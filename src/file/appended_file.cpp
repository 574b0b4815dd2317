// appended_file.cpp - write(), and ftruncate() behind what failed.
#include "file/appended_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pith {

Result<AppendedFile> AppendedFile::open(const std::string & path) {
    AppendedFile file(path, ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (file.file_ < 0) { return file.failure(); }
    return file;
}

AppendedFile::AppendedFile(AppendedFile && other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), failed_(std::move(other.failed_)) {}

AppendedFile::~AppendedFile() {
    if (file_ >= 0) { ::close(file_); }
}

Status AppendedFile::failure() const {
    return {ErrorCode::kIo, "'" + path_ + "' cannot be written: " + std::strerror(errno)};
}

bool AppendedFile::lock() {
    return flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

Status AppendedFile::append(std::string_view piece) {
    PITH_RETURN_IF_ERROR(failed_);
    struct stat before {};
    if (fstat(file_, &before) != 0) { return failed_ = failure(); }
    for (size_t done = 0; done < piece.size();) {
        const ssize_t n = ::write(file_, piece.data() + done, piece.size() - done);
        if (n < 0 && errno == EINTR) { continue; }
        if (n <= 0) {
            if (n == 0) { errno = ENOSPC; }  // a device that takes nothing, and does not say why
            failed_ = failure();
            static_cast<void>(::ftruncate(file_, before.st_size));  // or the half piece is for the next who opens the file
            return failed_;
        }
        done += static_cast<size_t>(n);
    }
    return {};
}

Status AppendedFile::cut(uint64_t size_bytes) {
    return ::ftruncate(file_, static_cast<off_t>(size_bytes)) == 0 ? Status() : failure();
}

Status AppendedFile::sync() {
    return ::fsync(file_) == 0 || errno == EINVAL ? Status() : failure();  // EINVAL: a device has nothing to wait for
}

}  // namespace pith
