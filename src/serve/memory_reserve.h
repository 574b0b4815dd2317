// memory_reserve.h - some memory for the last words of a request that found none. Stage: serve.
//
// Where operator new finds nothing, a request ends by std::bad_alloc. On its way out destructors may want a little (those of
// the JSON library do, and end the program where they get none), and so may the reply that tells of it. So the first failure on
// a thread that serves a request throws; the next ones get what lies here, a piece each, until the request is over. A process
// has one, once somebody wants it: it is the handler of operator new.   Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace pith::serve {

class MemoryReserve {
public:
    // From now on there is one. Throws where there is no memory for that either.
    static void keep();

    // While it lives this thread serves a request. What was given away is got back behind it, if it can be.
    class Scope {
    public:
        Scope();
        ~Scope();
        Scope(const Scope &) = delete;
        Scope & operator=(const Scope &) = delete;
    };

private:
    MemoryReserve();
    static MemoryReserve & instance();
    static void on_failure();
    void fill();

    // Addresses alone, of no allocator's heap: what one thread's heap has free, another's malloc does not find, and a heap
    // grows by more than a little at once (glibc: by 132 KiB, or 1 MiB where it cannot go on behind its end).
    static constexpr size_t kPieces = 48;
    static constexpr size_t kPieceBytes = size_t{1536} << 10;
    std::array<std::atomic<void *>, kPieces> pieces_{};
};

}  // namespace pith::serve
