// memory_reserve.cpp - a handler of operator new, and pieces that it gives back to the system. Stage: serve.
#include "serve/memory_reserve.h"

#include <sys/mman.h>

#include <new>

namespace pith::serve {
namespace {

enum class State { kOther, kServes, kIsShort };
thread_local State thread_state = State::kOther;
std::atomic<bool> is_kept{false};

}  // namespace

MemoryReserve::MemoryReserve() {
    fill();
    std::set_new_handler(on_failure);
    is_kept = true;
}

MemoryReserve & MemoryReserve::instance() {
    static auto * const reserve = new MemoryReserve();  // as long as the process: threads may end late
    return *reserve;
}

void MemoryReserve::keep() {
    instance();
}

void MemoryReserve::fill() {
    for (auto & piece : pieces_) {
        if (piece.load() != nullptr) { continue; }
        void * fresh = mmap(nullptr, kPieceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED) { return; }
        void * none = nullptr;
        if (!piece.compare_exchange_strong(none, fresh)) { munmap(fresh, kPieceBytes); }
    }
}

void MemoryReserve::on_failure() {
    if (thread_state == State::kIsShort) {
        for (auto & piece : instance().pieces_) {
            if (void * given = piece.exchange(nullptr); given != nullptr) {
                munmap(given, kPieceBytes);
                return;  // operator new tries again
            }
        }
    }
    if (thread_state == State::kServes) { thread_state = State::kIsShort; }
    throw std::bad_alloc();
}

MemoryReserve::Scope::Scope() {
    thread_state = State::kServes;
}

MemoryReserve::Scope::~Scope() {
    if (thread_state == State::kIsShort && is_kept) { instance().fill(); }
    thread_state = State::kOther;
}

}  // namespace pith::serve
