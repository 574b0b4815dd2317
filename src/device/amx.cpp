// amx.cpp - see amx.h.
#include "device/amx.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define PITH_MAY_HAVE_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pith {

#ifdef PITH_MAY_HAVE_AMX

bool ask_for_amx(AmxNumbers numbers) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) { return false; }
    constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24, kAmxInt8 = 1U << 25;
    const unsigned wanted = kAmxTile | (numbers == AmxNumbers::kBf16 ? kAmxBf16 : kAmxInt8);
    if ((d & wanted) != wanted) { return false; }
    constexpr long kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
    return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

#else

bool ask_for_amx(AmxNumbers /*numbers*/) {
    return false;
}

#endif

}  // namespace pith
