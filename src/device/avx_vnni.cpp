// avx_vnni.cpp - see avx_vnni.h.
#include "device/avx_vnni.h"

#include <atomic>

#ifdef PITH_COMPILES_AVX_VNNI
#include <cpuid.h>
#endif

namespace pith {
namespace {

std::atomic<bool> is_allowed = true;

bool processor_has_it() {
#ifdef PITH_COMPILES_AVX_VNNI
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kAvxVnni = 1U << 4;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || a < 1) { return false; }  // a: the last subleaf
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
#else
    return false;
#endif
}

}  // namespace

bool has_avx_vnni() {
    static const bool has = processor_has_it();
    return has && is_allowed;
}

void allow_avx_vnni(bool allowed) {
    is_allowed = allowed;
}

}  // namespace pith
