// page_memory.cpp - mmap and madvise.
#include "cache/page_memory.h"

#include "core/items.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <optional>
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

namespace {

std::atomic<size_t> open_page_files{0};
std::atomic<bool> kept_from_forks{false};

// Nothing: there is none.
std::optional<rlim_t> limit_of(decltype(RLIMIT_NOFILE) what) {
    rlimit limit{};
    if (getrlimit(what, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) { return {}; }
    return limit.rlim_cur;
}

std::string descriptors_there_may_be() {
    const auto files = limit_of(RLIMIT_NOFILE);
    return "ulimit -n is " + (files ? std::to_string(*files) : std::string("unlimited"));
}

Status no_file(int error) {
    const std::string what = "no memory that KV caches can share: ";
    if (error == EMFILE) {
        return {ErrorCode::kOutOfMemory, what + "this process has as many files open as it may (" + descriptors_there_may_be() +
                                             "): raise that, or keep fewer requests"};
    }
    return {ErrorCode::kOutOfMemory, what + "the system gives no file for it: " + std::strerror(error)};
}

Status too_large(size_t size_bytes) {
    return {ErrorCode::kOutOfMemory, "no memory that KV caches can share: " + std::to_string(size_bytes >> 20U) +
                                         " MiB are more than the system allows a file (ulimit -f)"};
}

}  // namespace

PageFile::~PageFile() {
    if (descriptor_ < 0) { return; }
    close(descriptor_);
    --open_page_files;
}

size_t PageFile::n_open() {
    return open_page_files;
}

PageFile::Limit PageFile::most_open(int n_regions) {
    constexpr size_t kMostMappings = 65536;  // Linux's limit, unless it was changed
    constexpr size_t kShare = 4;
    const size_t by_mappings = std::max<size_t>(1, kMostMappings / kShare / static_cast<size_t>(std::max(n_regions, 1)));
    const auto files = limit_of(RLIMIT_NOFILE);
    const size_t by_files = files ? std::max<size_t>(1, *files / kShare) : by_mappings;
    if (by_files <= by_mappings) { return {by_files, descriptors_there_may_be()}; }
    return {by_mappings, "vm.max_map_count is taken to be " + std::to_string(kMostMappings)};
}

Result<std::shared_ptr<PageFile>> PageFile::make() {
    std::shared_ptr<PageFile> file(new PageFile);
    file->descriptor_ = memfd_create("pith-kv", MFD_CLOEXEC);
    if (file->descriptor_ < 0) { return no_file(errno); }
    ++open_page_files;
    return file;
}

void PageMemory::keep_from_forks(bool kept) {
    kept_from_forks = kept;
}

Result<PageMemory> PageMemory::map(size_t size_bytes, int flags, std::shared_ptr<const PageFile> file, size_t begin) {
    const size_t size = page_ceil(size_bytes);
    const int descriptor = file ? file->descriptor_ : -1;
    void * data = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor, static_cast<off_t>(begin));
    if (data == MAP_FAILED) {
        return {ErrorCode::kOutOfMemory, "no address space for a KV cache region of " + std::to_string(size >> 20U) +
                                             " MiB: lower " + item::kContext + ", or lift the limit on virtual memory"};
    }
#ifdef MADV_NOHUGEPAGE
    // A huge page would keep 2 MiB resident for a lane of a few entries.
    (void)madvise(data, size, MADV_NOHUGEPAGE);
#endif
#ifdef MADV_DONTFORK
    if (kept_from_forks) { (void)madvise(data, size, MADV_DONTFORK); }
#endif
    PageMemory made;
    made.data_ = static_cast<uint8_t *>(data);
    made.size_bytes_ = size;
    if ((flags & MAP_SHARED) != 0) { made.file_ = std::move(file); }
    made.begin_ = begin;
    return made;
}

Result<PageMemory> PageMemory::reserve(size_t size_bytes) {
    return map(size_bytes, MAP_PRIVATE | MAP_ANONYMOUS, nullptr, 0);
}

Result<PageMemory> PageMemory::reserve_to_fork(size_t size_bytes, std::shared_ptr<PageFile> & file) {
    // Beyond the limit the system ends the process (SIGXFSZ) rather than saying no.
    const size_t size = page_ceil(size_bytes);
    const auto most = limit_of(RLIMIT_FSIZE);
    if (most && size > *most) { return too_large(size); }
    if (file && most && file->size_bytes_ + size > *most) { file = nullptr; }
    if (!file) { PITH_ASSIGN_OR_RETURN(file, PageFile::make()); }
    const size_t begin = file->size_bytes_;
    if (ftruncate(file->descriptor_, static_cast<off_t>(begin + size)) != 0) { return too_large(begin + size); }
    file->size_bytes_ = begin + size;
    return map(size, MAP_SHARED, file, begin);
}

Result<PageMemory> PageMemory::fork() const {
    assert(file_ != nullptr);
    return map(size_bytes_, MAP_PRIVATE, file_, begin_);
}

PageMemory::PageMemory(PageMemory && other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      file_(std::move(other.file_)),
      begin_(other.begin_) {}

PageMemory & PageMemory::operator=(PageMemory && other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(file_, other.file_);
    std::swap(begin_, other.begin_);
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

void PageMemory::make_ready(const uint8_t * bytes, size_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
    constexpr size_t kLeastPages = 4;  // fewer are not worth the call
    if (size_bytes < kLeastPages * page_size_bytes()) { return; }
    const auto offset = static_cast<size_t>(bytes - data_);
    const size_t begin = offset / page_size_bytes() * page_size_bytes();
    // A system that knows no such call (Linux before 5.14) finds the pages one by one.
    (void)madvise(data_ + begin, page_ceil(offset + size_bytes) - begin, MADV_POPULATE_WRITE);
#else
    static_cast<void>(bytes);
    static_cast<void>(size_bytes);
#endif
}

}  // namespace pith
