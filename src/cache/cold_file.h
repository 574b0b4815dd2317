// cold_file.h - bytes that lie outside memory: appended to a file without a name, or parts of files that are there. Stage:
// cache.
//
// Nothing that was appended changes any more, so that copies of what refers to it may share it. It goes back to the disk with
// the last one who holds its room, which may be long before the file goes: those who have gone on from a text leave nothing.
// Threads: safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "file/mapped_file.h"
#include "pith/status.h"

namespace pith {

class ColdFile : public std::enable_shared_from_this<ColdFile> {
public:
    // For what is appended: a file without a name in the folder for temporary files (spill_memory.h).
    // Errors: kOutOfMemory: there is no such folder, or no file in it.
    static Result<std::shared_ptr<ColdFile>> make();
    // Bytes [begin, begin + size) of a file, to be read.
    struct Part {
        std::shared_ptr<const MappedFile> file;
        uint64_t begin = 0;
        uint64_t size = 0;
    };
    // These, one behind the other. A read lies inside one of them.
    explicit ColdFile(std::vector<Part> parts);
    ColdFile(const ColdFile &) = delete;
    ColdFile & operator=(const ColdFile &) = delete;
    ~ColdFile();

    // Bytes [begin, begin + size) of what is appended.
    class Room {
    public:
        Room(std::shared_ptr<const ColdFile> file, uint64_t begin, uint64_t size)
            : file_(std::move(file)), begin_(begin), size_(size) {}
        Room(const Room &) = delete;
        Room & operator=(const Room &) = delete;
        ~Room();
        uint64_t begin() const { return begin_; }

    private:
        std::shared_ptr<const ColdFile> file_;
        uint64_t begin_;
        uint64_t size_;
    };
    // Room for so many bytes behind all others. Throws std::bad_alloc.
    std::shared_ptr<const Room> take_room(uint64_t size);
    // REQUIRES, of both: inside what was taken and is held, or is there. Errors: kIo (and the reason).
    Status write(uint64_t at, std::span<const uint8_t> bytes) const;
    Status read(uint64_t at, std::span<uint8_t> bytes) const;
    uint64_t size_bytes() const { return end_.load(); }  // with what has gone back

private:
    explicit ColdFile(int descriptor) : descriptor_(descriptor) {}

    std::atomic<uint64_t> end_{0};
    int descriptor_ = -1;      // of a file of its own
    std::vector<Part> parts_;  // of others'
};

}  // namespace pith
