// free_memory.h - what the allocator holds and nobody uses. Stage: serve.
#pragma once

namespace pith::serve {

// The system gets back whole pages that lie free in the allocator's heaps, where it can be asked to (glibc). A heap keeps what
// lies below its last block otherwise: a program that holds megabytes for a while, in many threads, comes to keep as much
// again. Cost: a few milliseconds, during which allocations of other threads may wait.   Threads: any.
void give_back_free_memory() noexcept;

}  // namespace pith::serve
