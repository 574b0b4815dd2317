// pooled_rows.h - the largest of a window's attention rows, each pooled along the tokens first. Stage: attention → evidence.
// Pure C++: no ggml, no I/O.
#pragma once

#include <span>

namespace pith {

// most [n] = max(most, row pooled): of the first n_past entries the mean over `width` neighbours, with zeros outside, times
// what brings their sum back to what it was; the others as they are. REQUIRES: width odd, n_past ≤ n; scratch [n].   Cost: O(n
// · width).
void take_pooled_row(std::span<const float> row, int n_past, int width, std::span<float> most, std::span<float> scratch);

}  // namespace pith
