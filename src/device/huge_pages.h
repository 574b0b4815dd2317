// huge_pages.h - memory that is read over and over from end to end. Stage: device.
#pragma once

#include <cstddef>

namespace pith {

// Asks the system for huge pages (2 MiB) in this memory, which nothing has been written to yet and all of which will be.
// Weights that lie in them are read with fewer misses of the processor's address translation: a decoded token takes some
// per cent less time (scripts/measure ab). A wish: less than a huge page, or a system without them, and nothing happens.
// Threads: any.
void use_huge_pages(void * data, size_t size_bytes);

}  // namespace pith
