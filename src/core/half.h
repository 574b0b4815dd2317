// half.h - floats rounded to half precision, 16 at a time. Stage: all. Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>
#include <span>

namespace pith {

// IEEE binary16, to nearest, halves to even; what is too large becomes infinite. out: as many as values.
void round_to_half(std::span<const float> values, uint16_t * out);

}  // namespace pith
