// spill_memory.cpp - a mapping of a file whose name is gone, or of none.
#include "cache/spill_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "file/left_file.h"
#include "pith/log.h"

namespace pith {
namespace {

constexpr std::string_view kNameBegin = ".pith-put-aside-";
constexpr std::string_view kNameEnd = ".tmp";
constexpr std::string_view kAnyLetters = "XXXXXX";  // mkostemps's

// One whose name goes at once. It is locked as long as it has the name: of a process that was killed in between it is not, and
// whoever starts in the folder removes it (is_put_aside()).
int open_with_name_for_a_moment(const std::filesystem::path & folder) {
    for (;;) {
        std::string name = (folder / name_put_aside(kAnyLetters)).string();
        const int file = mkostemps(name.data(), static_cast<int>(kNameEnd.size()), O_CLOEXEC);
        if (file < 0) { return file; }
        const bool is_taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!is_taken && is_at(file, name)) {
            unlink(name.c_str());
            return file;
        }
        close(file);  // somebody was about to remove it
    }
}

// One that never had a name, where the file system has these.
int open_without_name(const std::filesystem::path & folder) {
    const int unnamed = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    return unnamed >= 0 ? unnamed : open_with_name_for_a_moment(folder);
}

// A file of so many bytes, all of them there. in: empty: the folder for temporary files. -1: `why` says what is missing.
int open_unnamed(size_t size_bytes, const std::string & in, std::string & why) {
    const std::filesystem::path folder = in.empty() ? spill_folder() : in;
    if (folder.empty()) {
        why = "there is no folder for temporary files: name one with TMPDIR";
        return -1;
    }
    const int file = open_without_name(folder);
    int failed = file < 0 ? errno : 0;
    if (failed == 0) { failed = posix_fallocate(file, 0, static_cast<off_t>(size_bytes)); }
    if (failed == 0) { return file; }
    if (file >= 0) { close(file); }
    why = "no room for ";
    why += std::to_string((size_bytes >> 20U) + 1) + " MiB that are put aside for a while, in ";
    why += folder.string() + ": " + std::strerror(failed);
    if (in.empty()) { why += "; name another folder with TMPDIR"; }
    return -1;
}

}  // namespace

bool lies_in_memory(const std::string & folder) {
    constexpr uint32_t kTmpfs = 0x01021994;  // linux/magic.h
    constexpr uint32_t kRamfs = 0x858458f6;
    struct statfs system {};
    if (statfs(folder.c_str(), &system) != 0) { return false; }
    const auto type = static_cast<uint32_t>(system.f_type);
    return type == kTmpfs || type == kRamfs;
}

std::string spill_folder() {
    std::error_code error;
    const std::string usual = std::filesystem::temp_directory_path(error).string();
    if (error) { return {}; }
    if (!lies_in_memory(usual)) { return usual; }
    const std::string other = "/var/tmp";
    if (usual == "/tmp" && !lies_in_memory(other) && access(other.c_str(), W_OK | X_OK) == 0) { return other; }
    static std::atomic_flag said;
    if (!said.test_and_set()) {
        log_line(LogLevel::kWarning, "what makes room for others goes to files in " + usual +
                                         ", which lies in memory (tmpfs), where it takes as much as before: name a folder on a "
                                         "disk with TMPDIR");
    }
    return usual;
}

Result<int> open_file_without_name() {
    const std::string folder = spill_folder();
    if (folder.empty()) { return {ErrorCode::kOutOfMemory, "there is no folder for temporary files: name one with TMPDIR"}; }
    const int file = open_without_name(folder);
    if (file >= 0) { return file; }
    return {ErrorCode::kOutOfMemory,
            "no temporary file can be made in " + folder + ": " + std::strerror(errno) + "; name another folder with TMPDIR"};
}

std::string name_put_aside(std::string_view letters) {
    return std::string(kNameBegin) + std::string(letters) + std::string(kNameEnd);
}

bool is_put_aside(std::string_view file_name) {
    return file_name.size() == kNameBegin.size() + kAnyLetters.size() + kNameEnd.size() && file_name.starts_with(kNameBegin) &&
           file_name.ends_with(kNameEnd);
}

Result<SpillMemory> SpillMemory::make(size_t size_bytes, Spill where, const std::string & folder) {
    SpillMemory made;
    if (size_bytes == 0) { return made; }
    int file = -1;
    if (where == Spill::kFile) {
        std::string why;
        file = open_unnamed(size_bytes, folder, why);
        if (file < 0) { return {ErrorCode::kOutOfMemory, why}; }
    }
    const int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void * data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (file >= 0) { close(file); }
    if (data == MAP_FAILED) { return {ErrorCode::kOutOfMemory, "no memory for what is put aside for a while"}; }
    made.data_ = static_cast<uint8_t *>(data);
    made.size_bytes_ = size_bytes;
    made.in_file_ = where == Spill::kFile;
    return made;
}

SpillMemory::SpillMemory(SpillMemory && other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)), in_file_(other.in_file_) {}

SpillMemory & SpillMemory::operator=(SpillMemory && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(in_file_, other.in_file_);
    return *this;
}

SpillMemory::~SpillMemory() {
    if (data_ != nullptr) { munmap(data_, size_bytes_); }
}

}  // namespace pith
