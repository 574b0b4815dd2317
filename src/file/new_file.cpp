// new_file.cpp - writes beside the target, then renames.
#include "file/new_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "file/left_file.h"
#include "file/link_target.h"

namespace pith {
namespace {

constexpr const char * kPrivateSuffix = ".tmp";
constexpr mode_t kAnybody = 0666;  // less what the process's mask takes away

std::string folder_of(const std::string & path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

// So that the new name is there after a power failure, too. Where a file system cannot do this, nothing is lost by it.
void sync_folder(const std::string & folder) {
    const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) { return; }
    static_cast<void>(fsync(file));
    ::close(file);
}

// The first name beside the path that nobody has, which `take` makes the file's: it returns a negative number, with errno. It
// says nothing of the path's own, which may be as long as a name may be.
template <class Take>
int take_free_name(const std::string & path, std::string & name, const Take & take) {
    const std::string folder = folder_of(path);
    for (int n = 0;; ++n) {
        name = folder + "/.pith-" + std::to_string(getpid()) + "-" + std::to_string(n) + ".tmp";
        const int taken = take(name.c_str());
        if (taken >= 0 || errno != EEXIST) { return taken; }
    }
}

// The way to an open file for calls that want a path.
std::string path_of_descriptor(int file) {
    return "/proc/self/fd/" + std::to_string(file);
}

// -1: the file system has none, or the system no way to name it later.
int open_without_name(const std::string & folder) {
    const int file = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kAnybody);
    if (file < 0 || access(path_of_descriptor(file).c_str(), F_OK) == 0) { return file; }
    close(file);
    return -1;
}

// Whether a writer of such files left this one.
bool is_left(int file, const NewFile::Beginning & beginning) {
    struct stat info {};
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) { return false; }
    std::array<char, 4096> buffer{};  // no memory is asked for while the file is nobody's
    const size_t n_wanted = std::min(buffer.size(), std::max(beginning.n_zeros, beginning.magic.size()));
    const ssize_t n = pread(file, buffer.data(), n_wanted, 0);
    if (n < 0) { return false; }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(n));
    if (n > 0 && bytes.starts_with(beginning.magic)) { return true; }
    return std::ranges::all_of(bytes.substr(0, beginning.n_zeros), [](char c) { return c == '\0'; });
}

Status something_else(const std::string & path, const std::string & unfinished) {
    return {ErrorCode::kInvalidArgument,
            "'" + path + "' cannot be written: '" + unfinished +
                "', where it would lie until it is whole, is another file: name another one, or move that"};
}

// Of such a file's name: it is no plain file.
bool is_of_another_kind(int error) {
    return error == ELOOP || error == EISDIR || error == ENXIO;
}

}  // namespace

Result<NewFile> NewFile::create(const std::string & path) {
    PITH_ASSIGN_OR_RETURN(std::string target, link_target(path));
    NewFile file(path, std::move(target));
    file.unnamed_ = open_without_name(folder_of(file.target_));
    if (file.unnamed_ >= 0) {
        const int opened = fcntl(file.unnamed_, F_DUPFD_CLOEXEC, 0);
        if (opened < 0) { return file.failure(); }
        PITH_RETURN_IF_ERROR(file.take(opened));
        return file;
    }
    std::string name;
    const int opened = take_free_name(
        file.target_, name, [](const char * free) { return open(free, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAnybody); });
    if (opened < 0) { return file.failure(); }
    file.unfinished_ = std::move(name);
    PITH_RETURN_IF_ERROR(file.take(opened));
    return file;
}

Result<NewFile> NewFile::create_private(const std::string & path, const Beginning & beginning) {
    PITH_ASSIGN_OR_RETURN(std::string target, link_target(path));
    NewFile file(path, std::move(target));
    std::string unfinished = file.target_ + kPrivateSuffix;
    for (;;) {
        const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // of a pipe nobody waits for the other end
        const int opened = open(unfinished.c_str(), flags, S_IRUSR | S_IWUSR);
        if (opened < 0) { return is_of_another_kind(errno) ? something_else(path, unfinished) : file.failure(); }
        if (flock(opened, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            ::close(opened);
            return Status(ErrorCode::kIo, "'" + path + "' cannot be written: another process is writing it");
        }
        if (!is_at(opened, unfinished)) {  // whoever wrote it has renamed it meanwhile
            ::close(opened);
            continue;
        }
        if (!is_left(opened, beginning)) {
            ::close(opened);
            return something_else(path, unfinished);
        }
        file.unfinished_ = std::move(unfinished);  // no memory is asked for while the file is nobody's
        file.private_ = true;
        PITH_RETURN_IF_ERROR(file.take(opened));
        if (ftruncate(opened, 0) != 0 || fchmod(opened, S_IRUSR | S_IWUSR) != 0) { return file.failure(); }
        return file;
    }
}

Status NewFile::check_private(const std::string & path, const Beginning & beginning) {
    PITH_ASSIGN_OR_RETURN(const std::string target, link_target(path));
    const std::string unfinished = target + kPrivateSuffix;
    const int file = open(unfinished.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) { return is_of_another_kind(errno) ? something_else(path, unfinished) : Status(); }
    const bool left = is_left(file, beginning);
    ::close(file);
    return left ? Status() : something_else(path, unfinished);
}

bool NewFile::remove_abandoned(const std::string & path) {
    return remove_unless_locked(path + kPrivateSuffix);
}

NewFile::NewFile(NewFile && other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      unfinished_(std::exchange(other.unfinished_, std::string())),
      unnamed_(std::exchange(other.unnamed_, -1)),
      private_(other.private_),
      file_(std::move(other.file_)) {}

NewFile::~NewFile() {
    if (!unfinished_.empty()) { std::remove(unfinished_.c_str()); }  // before it is closed, and others may have its name
    file_.reset();
    if (unnamed_ >= 0) { ::close(unnamed_); }
}

Status NewFile::failure() const {
    return {ErrorCode::kIo, "'" + path_ + "' cannot be written: " + std::strerror(errno)};
}

Status NewFile::take(int opened) {
    file_.reset(fdopen(opened, "wb"));
    if (file_) { return {}; }
    const Status status = failure();
    ::close(opened);
    return status;
}

Status NewFile::write(const void * data, size_t size_bytes) {
    return std::fwrite(data, 1, size_bytes, file_.get()) == size_bytes ? Status() : failure();
}

Status NewFile::rewind() {
    return std::fseek(file_.get(), 0, SEEK_SET) == 0 ? Status() : failure();
}

Status NewFile::sync() {
    return std::fflush(file_.get()) == 0 && fsync(fileno(file_.get())) == 0 ? Status() : failure();
}

Status NewFile::close() {
    return std::fclose(file_.release()) == 0 ? Status() : failure();
}

// The target's own where that is free, so that nobody ever sees another; otherwise one to be renamed from.
Status NewFile::give_name() {
    const auto link_to = [this](const char * name) {
        return linkat(AT_FDCWD, path_of_descriptor(unnamed_).c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
    };
    if (link_to(target_.c_str()) == 0) { return {}; }
    if (errno != EEXIST) { return failure(); }
    std::string name;
    if (take_free_name(target_, name, link_to) < 0) { return failure(); }
    unfinished_ = std::move(name);
    return {};
}

Status NewFile::publish() {
    if (private_) {  // still locked
        PITH_RETURN_IF_ERROR(sync());
    } else if (file_) {
        PITH_RETURN_IF_ERROR(close());
    }
    const std::string folder = private_ ? folder_of(target_) : std::string();  // once it has its name nothing may fail
    if (unnamed_ >= 0) { PITH_RETURN_IF_ERROR(give_name()); }
    if (!unfinished_.empty() && std::rename(unfinished_.c_str(), target_.c_str()) != 0) { return failure(); }
    unfinished_.clear();
    file_.reset();
    if (private_) { sync_folder(folder); }
    return {};
}

}  // namespace pith
