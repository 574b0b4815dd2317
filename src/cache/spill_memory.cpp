// spill_memory.cpp - a mapping of a file whose name is gone, or of none.
#include "cache/spill_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "pith/log.h"

namespace pith {
namespace {

// One that never had a name; where the file system has none of these, one whose name goes at once.
int open_without_name(const std::filesystem::path & folder) {
    const int unnamed = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (unnamed >= 0) { return unnamed; }
    std::string name = (folder / "pith-XXXXXX").string();
    const int file = mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) { unlink(name.c_str()); }
    return file;
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
