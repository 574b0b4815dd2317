// kv_pages.cpp - /proc/self/pagemap.
#include "engine/kv_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "cache/page_memory.h"

namespace pith::testing {
namespace {

constexpr size_t kMostRegions = 4096;
constexpr int kLookEvery = 16;  // times that pages are given back: looking takes longer than that

// A page that is there, or in swap, and is the process's own: not a file's, as those are that a fork only reads. Memory files
// that caches keep what is forked in are mapped once to be written; these pages are a file's, too, and are told apart by who
// mapped them.
constexpr uint64_t kThere = uint64_t{3} << 62U;
constexpr uint64_t kOfFile = uint64_t{1} << 61U;

}  // namespace

KvPages::KvPages() : pages_(1024), file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {
    regions_.reserve(kMostRegions);
    watch_regions(this);
#if !defined(__SANITIZE_THREAD__)
    works_ = file_ >= 0;
#endif
}

KvPages::~KvPages() {
    watch_regions(nullptr);
    if (file_ >= 0) { close(file_); }
}

void KvPages::mapped(void * begin, size_t size, bool reads_file) noexcept {
    if (regions_.size() == kMostRegions) { works_ = false; }
    if (works_) { regions_.push_back({reinterpret_cast<uintptr_t>(begin), size, reads_file}); }
}

void KvPages::unmapped(void * begin) noexcept {
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const auto found = std::ranges::find(regions_, address, &Region::begin);
    if (found != regions_.end()) { regions_.erase(found); }
}

void KvPages::gives_back() noexcept {
    if (watches_peaks_ && ++n_given_back_ % kLookEvery == 0) { bytes(); }
}

size_t KvPages::bytes_of(const Region & region) noexcept {
    size_t n_pages = 0;
    const size_t end = region.size / page_size_bytes();
    for (size_t page = 0; page < end;) {
        const size_t n = std::min(pages_.size(), end - page);
        const auto at = static_cast<off_t>((region.begin / page_size_bytes() + page) * sizeof(uint64_t));
        const auto size = static_cast<ssize_t>(n * sizeof(uint64_t));
        if (pread(file_, pages_.data(), static_cast<size_t>(size), at) != size) {
            works_ = false;
            return 0;
        }
        for (size_t i = 0; i < n; ++i) {
            const bool counts = !region.reads_file || (pages_[i] & kOfFile) == 0;
            n_pages += (pages_[i] & kThere) != 0 && counts ? 1 : 0;
        }
        page += n;
    }
    return n_pages * page_size_bytes();
}

size_t KvPages::bytes() noexcept {
    size_t n = 0;
    for (const Region & region : regions_) { n += works_ ? bytes_of(region) : 0; }
    most_ = std::max(most_, n);
    return n;
}

}  // namespace pith::testing
