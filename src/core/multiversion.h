// multiversion.h - functions compiled for several instruction sets, of which the loader picks one at start. Stage: all.
// Pure C++: no ggml, no I/O.
//
// Vectors of the compiler's own extension, lowered to what the instruction set has; they never cross a call that is not
// inlined, so that no calling convention depends on it.
#pragma once

#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define PITH_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PITH_CLONES
#endif
#define PITH_ALWAYS_INLINE inline __attribute__((always_inline))

namespace pith {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float FloatVec __attribute__((vector_size(64)));
typedef double DoubleVec __attribute__((vector_size(64)));
inline constexpr int kFloatLanes = 16;
inline constexpr int kDoubleLanes = 8;

template <class V, class T>
PITH_ALWAYS_INLINE void load(V & v, const T * p) {
    std::memcpy(&v, p, sizeof(V));
}

#pragma GCC diagnostic pop

}  // namespace pith
