// gguf_mutation.h - a GGUF file with one to three things wrong in it, by seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/gguf_marks.h"

namespace pith::testing {

// The bytes of a file, and where its parts lie.
struct MarkedFile {
    std::vector<uint8_t> bytes;
    GgufMarks marks;
};

struct Mutation {
    std::vector<uint8_t> bytes;
    std::string what;  // for a failure's message: "a count at byte 8 becomes 4294967296; …"
};

// The same seed gives the same mutation of the same file.
Mutation mutate(const MarkedFile & file, uint64_t seed);

}  // namespace pith::testing
