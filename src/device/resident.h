// resident.h - how much memory the process really holds. Stage: device.
#pragma once

#include <cstddef>

namespace pith {

struct ResidentBytes {
    size_t now = 0;        // all resident pages
    size_t anonymous = 0;  // without mapped files: what a cache costs
    size_t peak = 0;       // the most there ever was
};

// Zeros where the system does not say (only Linux does here). Cost: one small read of /proc.
ResidentBytes resident_bytes();

}  // namespace pith
