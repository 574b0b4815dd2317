// file_type.h - what a model file says its weights are, and what they are. Stage: model.
//
// The key general.file_type holds a number of llama.cpp's llama_ftype; the names are those that llama.cpp prints for it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "file/gguf_header.h"
#include "pith/model.h"

namespace pith {

// "Q4_K - Medium"; empty: no name is known for the number.
std::string_view name_of_file_type(int64_t number);

// What the header says, by name, or by number where no name is known; where it says nothing, "mostly q8_0": the type that most
// weights have.   REQUIRES: shares is not empty.
std::string file_type_text(const GgufHeader & header, std::span<const WeightShare> shares);

}  // namespace pith
