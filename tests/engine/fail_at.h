// fail_at.h - makes the k-th of something fail, once: memory, pages, buffers, graph runs, files. Only in the thread that armed
// it, and of memory only what Pith's own code and the standard library ask for, not ggml's or libllama's. Where
// ThreadSanitizer watches, memory and pages are its own, and do not fail.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pith::testing {

// kFiles: what a temporary file needs: a name, room on disk, a place in memory; and what pages that caches share need of one.
// kNamedFiles: what it takes to write and to read a file that has a name: to open it, its bytes, fsync, rename.
// kCancel: nothing fails: as the k-th graph run begins, cancel_flag() is set.
enum class Fails { kNew, kPages, kBuffers, kGraphs, kFiles, kNamedFiles, kCancel };

void fail_at(Fails what, int64_t k);  // the k-th from now on, from 1
// Nothing fails any more. Whether something did.
bool stop_failing();

const std::atomic<bool> & cancel_flag();
int64_t n_graphs_after_cancel();  // that began since then

// Told of regions of addresses that cost memory only where they are written (those of KV caches), by the thread that set it;
// not where ThreadSanitizer watches. Must not allocate.
class RegionWatch {
public:
    virtual ~RegionWatch() = default;
    // reads_file: its pages are a file's until they are written.
    virtual void mapped(void * begin, size_t size, bool reads_file) noexcept = 0;
    virtual void unmapped(void * begin) noexcept = 0;
    virtual void gives_back() noexcept = 0;  // before pages go
};
void watch_regions(RegionWatch * watch);  // null: nobody

}  // namespace pith::testing
