// gguf_marks.h - where in the bytes of a good GGUF file each part of its header lies: what mutations aim at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pith::testing {

// A number in the header, and what it says.
enum class MarkKind {
    kVersion,
    kCount,
    kLength,
    kValueType,
    kValue,
    kArrayType,
    kArrayCount,
    kDimensions,
    kSize,
    kTensorType,
    kOffset
};

struct Mark {
    MarkKind kind;
    size_t begin = 0;
    size_t size = 0;  // bytes: 1, 2, 4 or 8
};

// One metadata entry or one line of the tensor table; its name or key begins 8 bytes in, behind its length.
struct Piece {
    size_t begin = 0;
    size_t end = 0;
    std::string name;
    size_t value = 0;          // where an entry's value begins, behind its type; 0 in the tensor table
    uint32_t value_type = 0;   // of an entry
    std::vector<Piece> items;  // of an array of strings: begin is each one's length
};

struct GgufMarks {
    std::vector<Mark> numbers;
    std::vector<Piece> entries;
    std::vector<Piece> tensors;
    size_t data = 0;  // the end of the header, before padding
};

// REQUIRES: a whole GGUF file of version 3 that is in order.
GgufMarks find_marks(std::span<const uint8_t> bytes);

}  // namespace pith::testing
