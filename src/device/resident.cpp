// resident.cpp - /proc/self/status.
#include "device/resident.h"

#include <fstream>
#include <string>

namespace pith {

ResidentBytes resident_bytes() {
    ResidentBytes bytes;
    std::ifstream status("/proc/self/status");
    std::string key;
    while (status >> key) {
        size_t * field = key == "VmRSS:"     ? &bytes.now
                         : key == "RssAnon:" ? &bytes.anonymous
                         : key == "VmHWM:"   ? &bytes.peak
                                             : nullptr;
        if (field != nullptr && status >> *field) { *field *= 1024; }
        status.ignore(1 << 16, '\n');
    }
    return bytes;
}

}  // namespace pith
