// page_memory.cpp - mmap and madvise.
#include "cache/page_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <string>
#include <utility>

namespace pith {

size_t page_size_bytes() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

size_t page_ceil(size_t size_bytes) {
    const size_t page = page_size_bytes();
    return (size_bytes + page - 1) / page * page;
}

Result<PageMemory> PageMemory::reserve(size_t size_bytes) {
    const size_t size = page_ceil(size_bytes);
    void * data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return {ErrorCode::kOutOfMemory, "no address space for a KV cache region of " + std::to_string(size >> 20U) +
                                             " MiB: lower --ctx-size, or lift the limit on virtual memory"};
    }
#ifdef MADV_NOHUGEPAGE
    // A huge page would keep 2 MiB resident for a lane of a few entries.
    (void)madvise(data, size, MADV_NOHUGEPAGE);
#endif
    return PageMemory(static_cast<uint8_t *>(data), size);
}

PageMemory::PageMemory(PageMemory && other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PageMemory & PageMemory::operator=(PageMemory && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
}

PageMemory::~PageMemory() {
    if (data_ != nullptr) { munmap(data_, size_bytes_); }
}

void PageMemory::release(size_t begin, size_t end) {
    assert(begin % page_size_bytes() == 0 && end % page_size_bytes() == 0 && begin <= end && end <= size_bytes_);
    if (begin < end) { (void)madvise(data_ + begin, end - begin, MADV_DONTNEED); }
}

}  // namespace pith
