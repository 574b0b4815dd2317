// gguf_marks.cpp - see gguf_marks.h. Lengths are not checked: the files are the tests' own.
#include "fuzz/gguf_marks.h"

#include <gguf.h>

#include <cstring>

namespace pith::testing {
namespace {

size_t number_size(uint32_t type) {
    switch (type) {
        case GGUF_TYPE_UINT8:
        case GGUF_TYPE_INT8:
        case GGUF_TYPE_BOOL:
            return 1;
        case GGUF_TYPE_UINT16:
        case GGUF_TYPE_INT16:
            return 2;
        case GGUF_TYPE_UINT64:
        case GGUF_TYPE_INT64:
        case GGUF_TYPE_FLOAT64:
            return 8;
        default:
            return 4;
    }
}

class Walk {
public:
    explicit Walk(std::span<const uint8_t> bytes) : bytes_(bytes) {}

    GgufMarks file() {
        at_ = 4;
        number(MarkKind::kVersion, 4);
        const uint64_t n_tensors = number(MarkKind::kCount, 8);
        const uint64_t n_entries = number(MarkKind::kCount, 8);
        for (uint64_t i = 0; i < n_entries; ++i) { entry(); }
        for (uint64_t i = 0; i < n_tensors; ++i) { tensor(); }
        marks_.data = at_;
        return std::move(marks_);
    }

private:
    uint64_t number(MarkKind kind, size_t size) {
        uint64_t value = 0;
        std::memcpy(&value, bytes_.data() + at_, size);
        marks_.numbers.push_back({kind, at_, size});
        at_ += size;
        return value;
    }
    std::string string() {
        const uint64_t n = number(MarkKind::kLength, 8);
        std::string text(reinterpret_cast<const char *>(bytes_.data()) + at_, n);
        at_ += n;
        return text;
    }
    void entry() {
        Piece piece;
        piece.begin = at_;
        piece.name = string();
        piece.value_type = static_cast<uint32_t>(number(MarkKind::kValueType, 4));
        piece.value = at_;
        if (piece.value_type == GGUF_TYPE_STRING) {
            string();
        } else if (piece.value_type == GGUF_TYPE_ARRAY) {
            array(piece);
        } else {
            number(MarkKind::kValue, number_size(piece.value_type));
        }
        piece.end = at_;
        marks_.entries.push_back(std::move(piece));
    }
    void array(Piece & piece) {
        const auto type = static_cast<uint32_t>(number(MarkKind::kArrayType, 4));
        const uint64_t n = number(MarkKind::kArrayCount, 8);
        if (type != GGUF_TYPE_STRING) {
            at_ += n * number_size(type);
            return;
        }
        for (uint64_t i = 0; i < n; ++i) {
            Piece item;
            item.begin = at_;
            item.name = string();
            item.end = at_;
            piece.items.push_back(std::move(item));
        }
    }
    void tensor() {
        Piece piece;
        piece.begin = at_;
        piece.name = string();
        const uint64_t n_dims = number(MarkKind::kDimensions, 4);
        for (uint64_t d = 0; d < n_dims; ++d) { number(MarkKind::kSize, 8); }
        number(MarkKind::kTensorType, 4);
        number(MarkKind::kOffset, 8);
        piece.end = at_;
        marks_.tensors.push_back(std::move(piece));
    }

    std::span<const uint8_t> bytes_;
    size_t at_ = 0;
    GgufMarks marks_;
};

}  // namespace

GgufMarks find_marks(std::span<const uint8_t> bytes) {
    return Walk(bytes).file();
}

}  // namespace pith::testing
