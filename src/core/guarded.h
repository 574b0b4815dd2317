// guarded.h - what is thrown inside becomes a Status outside. Stage: core.
#pragma once

#include <exception>
#include <new>

#include "core/items.h"
#include "pith/status.h"

namespace pith {

// Both: their text is left out where there is no memory for that either.
inline Status out_of_memory() noexcept {
    try {
        return {ErrorCode::kOutOfMemory, "out of memory: use a smaller " + item::kBudget + ", " + item::kChunk + " or context"};
    } catch (...) { return {ErrorCode::kOutOfMemory, {}}; }
}

inline Status status_of_exception(ErrorCode code, const char * what) noexcept {
    try {
        return {code, what};
    } catch (...) { return {code, {}}; }
}

// The call's Status or Result; kOutOfMemory where the standard library could not get memory, kInternal for any other exception.
template <class F>
auto guarded(F && call) noexcept -> decltype(call()) {
    try {
        return call();
    } catch (const std::bad_alloc &) { return out_of_memory(); } catch (const std::exception & error) {
        return status_of_exception(ErrorCode::kInternal, error.what());
    } catch (...) { return status_of_exception(ErrorCode::kInternal, "an exception of no known kind came out of a hook"); }
}

}  // namespace pith
