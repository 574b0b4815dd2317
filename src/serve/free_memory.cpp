// free_memory.cpp - glibc alone has a call for it.
#include "serve/free_memory.h"

#if defined(__linux__)
#include <malloc.h>
#endif

namespace pith::serve {

void give_back_free_memory() noexcept {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

}  // namespace pith::serve
