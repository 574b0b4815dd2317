// cold_file.cpp - positioned reads and writes.
#include "cache/cold_file.h"

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

}  // namespace

Result<std::shared_ptr<ColdFile>> ColdFile::make(uint64_t most_bytes) {
    PITH_ASSIGN_OR_RETURN(const int descriptor, open_file_without_name());
    std::shared_ptr<ColdFile> made(new (std::nothrow) ColdFile(descriptor, most_bytes));
    if (!made) {
        close(descriptor);
        return {ErrorCode::kOutOfMemory, "no memory for what keeps evicted entries"};
    }
    return made;
}

ColdFile::ColdFile(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part & part : parts_) { most_bytes_ += part.size; }
    end_ = most_bytes_;
}

ColdFile::~ColdFile() {
    if (descriptor_ >= 0) { close(descriptor_); }
}

std::optional<uint64_t> ColdFile::take_room(uint64_t size) noexcept {
    uint64_t begin = end_.load();
    do {
        if (size > most_bytes_ || begin > most_bytes_ - size) { return std::nullopt; }
    } while (!end_.compare_exchange_weak(begin, begin + size));
    return begin;
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
        const std::span<const uint8_t> there = part.file->read(static_cast<size_t>(part.begin + at), bytes);
        if (there.data() != bytes.data()) { std::ranges::copy(there, bytes.begin()); }
        return {};
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
