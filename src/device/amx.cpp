// amx.cpp - see amx.h.
#include "device/amx.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
#define PITH_MAY_HAVE_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pith {

#ifdef PITH_MAY_HAVE_AMX

namespace {

bool ask_for_amx_bytes() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) { return false; }
    constexpr unsigned kAvx512 = 1U << 16 | 1U << 30 | 1U << 31;  // F, BW, VL
    return (b & kAvx512) == kAvx512 && ask_for_amx(AmxNumbers::kInt8);
}

__attribute__((target("amx-tile"))) void load_shapes(const void * shapes) {
    settle(shapes);
    _tile_loadconfig(shapes);
}
__attribute__((target("amx-tile"))) void store_shapes(void * shapes) {
    _tile_storeconfig(shapes);
    settle(shapes);
}

}  // namespace

bool ask_for_amx(AmxNumbers numbers) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) { return false; }
    constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24, kAmxInt8 = 1U << 25;
    const unsigned wanted = kAmxTile | (numbers == AmxNumbers::kBf16 ? kAmxBf16 : kAmxInt8);
    if ((d & wanted) != wanted) { return false; }
    constexpr long kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
    return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

bool has_amx_bytes() {
    static const bool has = ask_for_amx_bytes();
    return has;
}

AmxSession::AmxSession(bool wanted) : open_(wanted) {
    if (!open_) { return; }
    store_shapes(before_);
    static const AmxTiles shapes;
    load_shapes(&shapes);
}

AmxSession::~AmxSession() {
    if (open_) { load_shapes(before_); }  // those of no shapes release the tiles
}

#else

bool ask_for_amx(AmxNumbers /*numbers*/) {
    return false;
}
bool has_amx_bytes() {
    return false;
}
AmxSession::AmxSession(bool /*wanted*/) : open_(false) {}
AmxSession::~AmxSession() = default;

#endif

}  // namespace pith
