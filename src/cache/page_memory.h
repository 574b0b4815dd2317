// page_memory.h - address space reserved once, pages given back when entries go. Stage: cache.
//
// Freeing a heap buffer leaves its memory with the allocator; returning whole pages of a private mapping does not.
// Memory that several caches read can be forked: the pages are the same until one of them writes, and then that one has a copy
// of that page alone (copy on write, by the processor's own page tables).
// Errors: kOutOfMemory (names the size).   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "pith/status.h"

namespace pith {

size_t page_size_bytes();

// Rounds up to whole pages.
size_t page_ceil(size_t size_bytes);

// Regions to be forked that caches may have at a time: each takes a file descriptor and a mapping, of which other parts of the
// program want some, too. A quarter of what the system gives the process.
size_t most_regions_to_fork();

// A private, zero-filled mapping that costs memory only where it was written.
class PageMemory {
public:
    static Result<PageMemory> reserve(size_t size_bytes);
    // The same, to be forked.
    static Result<PageMemory> reserve_to_fork(size_t size_bytes);
    // Another mapping of these pages. REQUIRES: reserve_to_fork(); nothing is written to this one any more.
    Result<PageMemory> fork() const;

    PageMemory() = default;
    PageMemory(PageMemory && other) noexcept;
    PageMemory & operator=(PageMemory && other) noexcept;
    ~PageMemory();

    uint8_t * data() const { return data_; }
    size_t size_bytes() const { return size_bytes_; }

    // Returns the pages of [begin, end) to the system; they read as zero afterwards, in a fork
    // as what was forked.
    // REQUIRES: begin and end are multiples of the page size, begin <= end <= size_bytes().
    void release(size_t begin, size_t end);

private:
    struct File;
    static Result<PageMemory> map(size_t size_bytes, int flags, std::shared_ptr<const File> file);
    uint8_t * data_ = nullptr;
    size_t size_bytes_ = 0;
    std::shared_ptr<const File> file_;  // that forks are made of; null: none can be, or this is one
};

}  // namespace pith
