// avx_vnni.h - processors that have products of four bytes in one instruction but not AVX-512: Intel's since Alder Lake without
// it. Highway knows no such set: kernels for it are compiled apart. Stage: device.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, CPUID leaf 7, subleaf 1; VPDPBUSD (VEX).
#pragma once

#if defined(__x86_64__) && defined(__linux__) && \
    ((defined(__clang__) && __clang_major__ >= 12) || (defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11))
#define PITH_COMPILES_AVX_VNNI
#endif

namespace pith {

// Whether they may be used; of use where AVX2 is the best set besides.
bool has_avx_vnni();
// Tests and benchmarks compare with and without.   Threads: while no kernel runs.
void allow_avx_vnni(bool allowed);

}  // namespace pith
