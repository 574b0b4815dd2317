// gguf_header.h - the metadata and the tensor table of one GGUF file, read with every length checked. Stage: file.
// ggml's own reader aborts the process on some hostile headers (a general.alignment that is no u32); this one returns errors.
// Source: the GGUF specification, versions 2 and 3 (ggml/docs/gguf.md).
#pragma once

#include <ggml.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "pith/status.h"

namespace pith {

// An array in the metadata. Numbers are widened to double; strings are only counted.
struct GgufArray {
    uint64_t n = 0;
    bool is_numeric = false;
    std::vector<double> numbers;  // at most kMaxKeptNumbers; empty for longer arrays and for strings
    static constexpr uint64_t kMaxKeptNumbers = 4096;
};

// Integers and bools arrive as int64_t, floats as double.
using GgufValue = std::variant<int64_t, double, std::string, GgufArray>;

struct GgufTensor {
    std::string name;
    ggml_type type = GGML_TYPE_F32;
    int64_t ne[4] = {1, 1, 1, 1};
    uint64_t offset = 0;  // from the beginning of the file
    size_t size = 0;      // bytes

    int64_t n_elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

struct GgufHeader {
    std::unordered_map<std::string, GgufValue> metadata;
    std::vector<GgufTensor> tensors;

    const GgufValue * find(const std::string & key) const;
    std::optional<std::string> string(const std::string & key) const;
};

// bytes: the whole file.
// Errors: kBadFile (naming `path`) for anything that is not a whole GGUF file: text, garbage, truncation, counts that
// overflow, tensor data past the end.   kUnsupported for versions and tensor types this build does not know, and for more than
// 8,192 tensors or keys.
Result<GgufHeader> parse_gguf(std::span<const uint8_t> bytes, const std::string & path);

// "[64, 32]", without trailing ones.
std::string shape_text(std::span<const int64_t> ne);

}  // namespace pith
