// new_file.cpp - writes beside the target, then renames.
#include "file/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace pith {
namespace {

constexpr const char * kPrivateSuffix = ".tmp";

// Whether the file is still the one that the path names: a process that wrote it has then not renamed it meanwhile.
bool is_at(int file, const std::string & path) {
    struct stat opened {};
    struct stat named {};
    return fstat(file, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
           opened.st_dev == named.st_dev;
}

// So that the new name is there after a power failure, too. Where a file system cannot do this, nothing is lost by it.
void sync_folder_of(const std::string & path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    const int file = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) { return; }
    static_cast<void>(fsync(file));
    ::close(file);
}

}  // namespace

Result<NewFile> NewFile::create(const std::string & path, std::string_view suffix) {
    NewFile file(path, path + std::string(suffix));
    file.file_.reset(std::fopen(file.unfinished_.c_str(), "wb"));
    if (file.file_) { return file; }
    const Status status = file.failure();
    file.unfinished_.clear();  // whatever is there is not ours
    return status;
}

Result<NewFile> NewFile::create_private(const std::string & path) {
    NewFile file(path, path + kPrivateSuffix);
    const std::string unfinished = std::exchange(file.unfinished_, std::string());  // not ours yet
    for (;;) {
        const int opened = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
        if (opened < 0) { return file.failure(); }
        if (flock(opened, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            ::close(opened);
            return Status(ErrorCode::kIo, "'" + path + "' cannot be written: another process is writing it");
        }
        if (!is_at(opened, unfinished)) {
            ::close(opened);
            continue;
        }
        file.unfinished_ = unfinished;
        file.private_ = true;
        file.file_.reset(fdopen(opened, "wb"));
        if (!file.file_) {
            const Status status = file.failure();
            ::close(opened);
            return status;
        }
        if (ftruncate(opened, 0) != 0 || fchmod(opened, S_IRUSR | S_IWUSR) != 0) { return file.failure(); }
        return file;
    }
}

bool NewFile::remove_abandoned(const std::string & path) {
    const std::string unfinished = path + kPrivateSuffix;
    const int opened = open(unfinished.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (opened < 0) { return errno == ENOENT; }
    const bool is_ours = flock(opened, LOCK_EX | LOCK_NB) == 0;
    if (is_ours && is_at(opened, unfinished)) { unlink(unfinished.c_str()); }
    ::close(opened);
    return is_ours;
}

NewFile::NewFile(NewFile && other) noexcept
    : path_(std::move(other.path_)),
      unfinished_(std::exchange(other.unfinished_, std::string())),
      private_(other.private_),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
    if (!unfinished_.empty()) { std::remove(unfinished_.c_str()); }  // before it is closed, and others may have its name
    file_.reset();
}

Status NewFile::failure() const {
    return {ErrorCode::kIo, "'" + path_ + "' cannot be written: " + std::strerror(errno)};
}

Status NewFile::write(const void * data, size_t size_bytes) {
    return std::fwrite(data, 1, size_bytes, file_.get()) == size_bytes ? Status() : failure();
}

Status NewFile::rewind() {
    return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? Status() : failure();
}

Status NewFile::close() {
    return std::fclose(file_.release()) == 0 ? Status() : failure();
}

Status NewFile::publish() {
    if (private_) {  // still locked
        if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) { return failure(); }
    } else if (file_) {
        PITH_RETURN_IF_ERROR(close());
    }
    if (std::rename(unfinished_.c_str(), path_.c_str()) != 0) { return failure(); }
    unfinished_.clear();
    file_.reset();
    if (private_) { sync_folder_of(path_); }
    return {};
}

}  // namespace pith
