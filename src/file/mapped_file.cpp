// mapped_file.cpp - a whole file mapped read-only (POSIX). Stage: file.
#include "file/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace pith {
namespace {

Status io_error(const std::string & path, const char * what, const char * kind) {
    const ErrorCode code = errno == ENOENT || errno == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
    return {code, "cannot " + std::string(what) + " " + kind + " file '" + path + "': " + std::strerror(errno)};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string & path, const char * kind, bool keeps_open) {
    const int fd =
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe is no file, and nobody waits for one
    if (fd < 0) { return io_error(path, "open", kind); }
    struct stat info {};
    if (fstat(fd, &info) != 0) {
        const Status status = io_error(path, "inspect", kind);
        ::close(fd);
        return status;
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        ::close(fd);
        const char * what = S_ISDIR(info.st_mode) ? "' is a folder" : "' is empty or no regular file";
        return {ErrorCode::kBadFile, "'" + path + what + ": give a " + kind + " file"};
    }
    const size_t size = static_cast<size_t>(info.st_size);
    void * data = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    const Status status = data == MAP_FAILED ? io_error(path, "map", kind) : Status{};
    if (!status.ok() || !keeps_open) { ::close(fd); }
    if (!status.ok()) { return status; }
    return MappedFile(static_cast<uint8_t *>(data), size, keeps_open ? fd : -1);
}

MappedFile::MappedFile(MappedFile && other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile & MappedFile::operator=(MappedFile && other) noexcept {
    if (this != &other) {
        close();
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
}

MappedFile::~MappedFile() {
    close();
}

void MappedFile::close() {
    if (data_ != nullptr) { munmap(data_, size_); }
    if (descriptor_ >= 0) { ::close(descriptor_); }
    data_ = nullptr;
    descriptor_ = -1;
}

size_t MappedFile::read_some(size_t offset, std::span<uint8_t> buffer) const {
    size_t n_read = 0;
    while (descriptor_ >= 0 && n_read < buffer.size()) {
        errno = 0;
        const ssize_t n =
            pread(descriptor_, buffer.data() + n_read, buffer.size() - n_read, static_cast<off_t>(offset + n_read));
        if (n < 0 && errno == EINTR) { continue; }
        if (n <= 0) { break; }
        n_read += static_cast<size_t>(n);
    }
    return n_read;
}

Status MappedFile::copy(size_t offset, std::span<uint8_t> buffer) const {
    if (descriptor_ < 0) {
        std::ranges::copy(bytes().subspan(offset, buffer.size()), buffer.begin());
        return {};
    }
    if (read_some(offset, buffer) == buffer.size()) { return {}; }
    return {ErrorCode::kIo, errno != 0 ? std::strerror(errno) : "it has become shorter since it was opened"};
}

std::span<const uint8_t> MappedFile::read(size_t offset, std::span<uint8_t> buffer) const {
    return read_some(offset, buffer) == buffer.size() ? std::span<const uint8_t>(buffer)
                                                      : bytes().subspan(offset, buffer.size());
}

void MappedFile::prefetch() const {
    (void)madvise(data_, size_, MADV_WILLNEED);
}

void MappedFile::drop(size_t offset, size_t size) const {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t begin = (offset + page - 1) / page * page;
    const size_t end = (offset + size) / page * page;
    if (begin < end) { (void)madvise(data_ + begin, end - begin, MADV_DONTNEED); }
}

}  // namespace pith
