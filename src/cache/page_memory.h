// page_memory.h - address space reserved once, pages given back when entries go. Stage: cache.
//
// Freeing a heap buffer leaves its memory with the allocator; returning whole pages of a private mapping does not.
// Errors: kOutOfMemory (names the size).   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pith/status.h"

namespace pith {

size_t page_size_bytes();

// Rounds up to whole pages.
size_t page_ceil(size_t size_bytes);

// A private, zero-filled mapping that costs memory only where it was written.
class PageMemory {
public:
    static Result<PageMemory> reserve(size_t size_bytes);

    PageMemory() = default;
    PageMemory(PageMemory && other) noexcept;
    PageMemory & operator=(PageMemory && other) noexcept;
    ~PageMemory();

    uint8_t * data() const { return data_; }
    size_t size_bytes() const { return size_bytes_; }

    // Returns the pages of [begin, end) to the system; they read as zero afterwards.
    // REQUIRES: begin and end are multiples of the page size, begin <= end <= size_bytes().
    void release(size_t begin, size_t end);

private:
    PageMemory(uint8_t * data, size_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
    uint8_t * data_ = nullptr;
    size_t size_bytes_ = 0;
};

}  // namespace pith
