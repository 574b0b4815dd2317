// cold_file.h - bytes that lie outside memory: appended to a file without a name, or parts of files that are there. Stage:
// cache.
//
// Nothing that was appended changes any more, so that copies of what refers to it may share it, and a call that fails leaves
// only bytes that nobody refers to. They go with the last one who holds the file.
// Threads: safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file/mapped_file.h"
#include "pith/status.h"

namespace pith {

class ColdFile {
public:
    // For what is appended: at most so many bytes, in a file without a name in the folder for temporary files (spill_memory.h).
    // Errors: kOutOfMemory: there is no such folder, or no file in it.
    static Result<std::shared_ptr<ColdFile>> make(uint64_t most_bytes);
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

    // Room for so many bytes behind all others: where they begin; nullopt: they would be more than it may hold.
    std::optional<uint64_t> take_room(uint64_t size) noexcept;
    // REQUIRES, of both: inside what was taken, or is there. Errors: kIo (and the reason).
    Status write(uint64_t at, std::span<const uint8_t> bytes) const;
    Status read(uint64_t at, std::span<uint8_t> bytes) const;
    uint64_t size_bytes() const { return end_.load(); }

private:
    ColdFile(int descriptor, uint64_t most_bytes) : most_bytes_(most_bytes), descriptor_(descriptor) {}

    uint64_t most_bytes_ = 0;
    std::atomic<uint64_t> end_{0};
    int descriptor_ = -1;      // of a file of its own
    std::vector<Part> parts_;  // of others'
};

}  // namespace pith
