// page_memory.cpp - mmap and madvise.
#include "cache/page_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
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

size_t most_regions_to_fork() {
    constexpr size_t kMostMappings = 65536;  // Linux's limit, unless it was changed
    rlimit files{};
    const bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
    return (limited ? std::min<size_t>(files.rlim_cur, kMostMappings) : kMostMappings) / 4;
}

struct PageMemory::File {
    explicit File(int of) : descriptor(of) {}
    File(const File &) = delete;
    File & operator=(const File &) = delete;
    ~File() { close(descriptor); }
    int descriptor;
};

Result<PageMemory> PageMemory::map(size_t size_bytes, int flags, std::shared_ptr<const File> file) {
    const size_t size = page_ceil(size_bytes);
    const int descriptor = file ? file->descriptor : -1;
    void * data = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor, 0);
    if (data == MAP_FAILED) {
        return {ErrorCode::kOutOfMemory, "no address space for a KV cache region of " + std::to_string(size >> 20U) +
                                             " MiB: lower --ctx-size, or lift the limit on virtual memory"};
    }
#ifdef MADV_NOHUGEPAGE
    // A huge page would keep 2 MiB resident for a lane of a few entries.
    (void)madvise(data, size, MADV_NOHUGEPAGE);
#endif
    PageMemory made;
    made.data_ = static_cast<uint8_t *>(data);
    made.size_bytes_ = size;
    if ((flags & MAP_SHARED) != 0) { made.file_ = std::move(file); }
    return made;
}

Result<PageMemory> PageMemory::reserve(size_t size_bytes) {
    return map(size_bytes, MAP_PRIVATE | MAP_ANONYMOUS, nullptr);
}

namespace {

Status too_large(size_t size_bytes) {
    return {ErrorCode::kOutOfMemory, "no memory that KV caches can share: " + std::to_string(size_bytes >> 20U) +
                                         " MiB are more than the system allows a file (ulimit -f)"};
}

}  // namespace

Result<PageMemory> PageMemory::reserve_to_fork(size_t size_bytes) {
    // Beyond the limit the system ends the process (SIGXFSZ) rather than saying no.
    rlimit limit{};
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    if (limited && page_ceil(size_bytes) > limit.rlim_cur) { return too_large(size_bytes); }
    const int descriptor = memfd_create("pith-kv", MFD_CLOEXEC);
    if (descriptor < 0) {
        return {ErrorCode::kOutOfMemory, "no memory that KV caches can share: the system gives no file for it"};
    }
    auto file = std::make_shared<const File>(descriptor);
    if (ftruncate(descriptor, static_cast<off_t>(page_ceil(size_bytes))) != 0) { return too_large(size_bytes); }
    return map(size_bytes, MAP_SHARED, std::move(file));
}

Result<PageMemory> PageMemory::fork() const {
    assert(file_ != nullptr);
    return map(size_bytes_, MAP_PRIVATE, file_);
}

PageMemory::PageMemory(PageMemory && other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      file_(std::move(other.file_)) {}

PageMemory & PageMemory::operator=(PageMemory && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(file_, other.file_);
    return *this;
}

PageMemory::~PageMemory() {
    if (data_ != nullptr) { munmap(data_, size_bytes_); }
}

void PageMemory::release(size_t begin, size_t end) {
    assert(begin % page_size_bytes() == 0 && end % page_size_bytes() == 0 && begin <= end && end <= size_bytes_);
    // The pages of a file stay with it until they are taken out of it.
    if (begin < end) { (void)madvise(data_ + begin, end - begin, file_ ? MADV_REMOVE : MADV_DONTNEED); }
}

}  // namespace pith
