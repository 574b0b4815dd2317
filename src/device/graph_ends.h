// graph_ends.h - what goes into a graph in front of every run, what is read of it behind, and how much larger the next one is.
// Stage: device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "ggml.h"

namespace pith {

struct GraphInput {
    ggml_tensor * tensor = nullptr;                  // null: `fill` is called with nothing
    const void * data = nullptr;                     // what is copied into it; null: `fill` makes it
    std::function<void(std::span<uint8_t>)> fill{};  // [the tensor's bytes], aligned as any type wants it
};

// Rows of a contiguous tensor; row r goes to to(r).
struct GraphOutput {
    ggml_tensor * tensor = nullptr;
    size_t row_bytes = 0;
    std::function<float *(size_t row)> to{};

    size_t n_rows() const { return row_bytes == 0 ? 0 : ggml_nbytes(tensor) / row_bytes; }
};

// How many bytes more the last of a row of graphs takes than this one: memory for that is taken at once.
struct GraphGrowth {
    size_t n_between = 0;  // of what operations write
    size_t n_inputs = 0;
};

}  // namespace pith
