// cpu_targets.h - which instruction sets kernels are compiled for. Included first by the files that compile them. Stage:
// device.
#pragma once

// GCC 12 warns of uninitialised values inside its own AVX-512 headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

// Left out: sets that differ from their neighbours in nothing used here, and vectors without a fixed length.
#define HWY_DISABLED_TARGETS \
    (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_AVX10_2 | HWY_ALL_SVE | HWY_RVV | HWY_SCALAR)
