// fail_at.h - makes the k-th of something fail, once: memory, pages, buffers, graph runs, temporary files. Only in the thread
// that armed it, and of memory only what Pith's own code and the standard library ask for, not ggml's. Where ThreadSanitizer
// watches, memory and pages are its own, and do not fail.
#pragma once

#include <cstdint>

namespace pith::testing {

// kFiles: what a temporary file needs: a name, room on disk, a place in memory; and what pages that caches share need of one.
enum class Fails { kNew, kPages, kBuffers, kGraphs, kFiles };

void fail_at(Fails what, int64_t k);  // the k-th from now on, from 1
// Nothing fails any more. Whether something did.
bool stop_failing();

}  // namespace pith::testing
