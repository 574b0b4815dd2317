// cold_file.cpp - positioned reads and writes.
#include "cache/cold_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cache/spill_memory.h"
#include "core/items.h"

namespace pith {
namespace {

Status failed(const char * what) {
    return {ErrorCode::kIo, std::string("cannot ") + what + " entries that were evicted, in a temporary file: " +
                                std::strerror(errno) + "; name another folder with TMPDIR, or leave out " + item::kCold};
}

Status failed_in_file(const Status & why) {
    return {ErrorCode::kIo, "cannot read entries that were evicted, which are in a file: " + why.message()};
}

}  // namespace

Result<std::shared_ptr<ColdFile>> ColdFile::make() {
    PITH_ASSIGN_OR_RETURN(const int descriptor, open_file_without_name());
    std::shared_ptr<ColdFile> made(new (std::nothrow) ColdFile(descriptor));
    if (!made) {
        close(descriptor);
        return {ErrorCode::kOutOfMemory, "no memory for what keeps evicted entries"};
    }
    return made;
}

ColdFile::ColdFile(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part & part : parts_) { end_ += part.size; }
}

ColdFile::~ColdFile() {
    if (descriptor_ >= 0) { close(descriptor_); }
}

// Where the file system cannot, it goes with the file.
ColdFile::Room::~Room() {
#ifdef FALLOC_FL_PUNCH_HOLE
    (void)fallocate(file_->descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin_),
                    static_cast<off_t>(size_));
#endif
}

std::shared_ptr<const ColdFile::Room> ColdFile::take_room(uint64_t size) {
    return std::make_shared<const Room>(shared_from_this(), end_.fetch_add(size), size);
}

Status ColdFile::write(uint64_t at, std::span<const uint8_t> bytes) const {
    while (!bytes.empty()) {
        const ssize_t n = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) { continue; }
        if (n <= 0) { return failed("write"); }
        at += static_cast<uint64_t>(n);
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

Status ColdFile::read(uint64_t at, std::span<uint8_t> bytes) const {
    for (const Part & part : parts_) {
        if (at >= part.size) {
            at -= part.size;
            continue;
        }
        const Status copied = part.file->copy(static_cast<size_t>(part.begin + at), bytes);
        return copied.ok() ? Status() : failed_in_file(copied);
    }
    while (!bytes.empty()) {
        const ssize_t n = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) { continue; }
        if (n <= 0) { return failed("read"); }
        at += static_cast<uint64_t>(n);
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

}  // namespace pith
