// gguf_name.h - what the name of a GGUF file says: which model, which quantisation, which part of how many.
// Pure C++: no I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pith::app {

struct GgufName {
    std::string stem;   // with its folders, without the part and ".gguf": "Q8_0/big-Q8_0"
    std::string quant;  // "Q4_K_M", in upper case; empty where the name ends in none
    int part = 1;       // "big-00002-of-00003.gguf": 2 of 3
    int n_parts = 1;
};

// Nothing where `path` does not end in ".gguf".
std::optional<GgufName> parse_gguf_name(std::string_view path);

// By its name no image projector, importance matrix or draft head, which lie beside models.
bool is_model_name(std::string_view path);

// Whether `tag` ("Q4_K_M", case ignored) stands in the path as a word: behind no letter or digit, before '.', '-' or '/'.
bool name_has_tag(std::string_view path, std::string_view tag);

}  // namespace pith::app
