// body_room.cpp - a count, and memory given back behind large bodies. Stage: serve.
#include "serve/body_room.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace pith::serve {
namespace {

constexpr size_t kLarge = size_t{1} << 20;  // behind fewer bytes nothing is worth looking for

void give_memory_back() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace

BodyRoom::Share::~Share() {
    room_.bytes_ -= bytes_;
    if (bytes_ >= kLarge) { give_memory_back(); }
}

bool BodyRoom::Share::take(size_t n_bytes) {
    if (room_.bytes_.fetch_add(n_bytes) + n_bytes > room_.most_) {
        room_.bytes_ -= n_bytes;
        return false;
    }
    bytes_ += n_bytes;
    return true;
}

}  // namespace pith::serve
