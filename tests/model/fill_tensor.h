// fill_tensor.h - random numbers under which a forgotten tensor shows: norms near 1, the spread of products near 1, factors of
// frequencies apart.
#pragma once

struct ggml_tensor;

namespace pith::testing {

// Of its name and shape. REQUIRES: f32 in memory.
void fill_tensor(ggml_tensor * tensor);

}  // namespace pith::testing
