// page_memory.h - address space reserved once, pages given back when entries go. Stage: cache.
//
// Freeing a heap buffer leaves its memory with the allocator; returning whole pages of a private mapping does not.
// Memory that several caches read can be forked: the pages are the same until one of them writes, and then that one has a copy
// of that page alone (copy on write, by the processor's own page tables).
// Errors: kOutOfMemory (names the size, or the limit).   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "pith/status.h"

namespace pith {

size_t page_size_bytes();

// Rounds up to whole pages.
size_t page_ceil(size_t size_bytes);

// A file in memory, in which regions to be forked lie one behind the other: what is forked together needs one descriptor.
class PageFile {
public:
    static Result<std::shared_ptr<PageFile>> make();
    PageFile(const PageFile &) = delete;
    PageFile & operator=(const PageFile &) = delete;
    ~PageFile();

    // So many of them there are in the process now.
    static size_t n_open();
    // So many there may be, and what says so: a quarter of what the system gives the process, of whose descriptors and mappings
    // other parts of the program want some, too. n_regions: in each of them.
    struct Limit {
        size_t n_files = 0;
        std::string name;  // "ulimit -n is 1024"
    };
    static Limit most_open(int n_regions);

private:
    friend class PageMemory;
    PageFile() = default;
    int descriptor_ = -1;
    size_t size_bytes_ = 0;
};

// A private, zero-filled mapping that costs memory only where it was written.
class PageMemory {
public:
    // Processes that this one forks from now on get none of the pages that are mapped from now on: each fork would copy the
    // tables of all of them, and the next write to each page the page. For a program whose forks never read a cache, as those
    // that render chat templates. Threads: any.
    static void keep_from_forks(bool kept = true);

    static Result<PageMemory> reserve(size_t size_bytes);
    // The same, to be forked. file: it lies behind what is there already; null, or full: a new one, which comes back.
    static Result<PageMemory> reserve_to_fork(size_t size_bytes, std::shared_ptr<PageFile> & file);
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
    // Lets the system find memory at once, rather than page by page, for these bytes, all of which are about to be written:
    // where a page fault is dear (virtual machines), copying to new pages takes half of the time then. Never fails.
    void make_ready(const uint8_t * bytes, size_t size_bytes);

private:
    static Result<PageMemory> map(size_t size_bytes, int flags, std::shared_ptr<const PageFile> file, size_t begin);
    uint8_t * data_ = nullptr;
    size_t size_bytes_ = 0;
    std::shared_ptr<const PageFile> file_;  // that forks are made of; null: none can be, or this is one
    size_t begin_ = 0;                      // in it
};

}  // namespace pith
