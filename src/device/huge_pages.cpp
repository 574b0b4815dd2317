// huge_pages.cpp - a word to Linux. Stage: device.
#include "device/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace pith {

void use_huge_pages([[maybe_unused]] void * data, [[maybe_unused]] size_t size_bytes) {
#ifdef MADV_HUGEPAGE
    constexpr uintptr_t kHugePage = 2U << 20U;  // what shares one with other memory would make that larger
    const auto address = reinterpret_cast<uintptr_t>(data);
    const uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
    const uintptr_t end = (address + size_bytes) / kHugePage * kHugePage;
    if (begin < end) { (void)madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE); }
#endif
}

}  // namespace pith
