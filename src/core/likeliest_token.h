// likeliest_token.h - what greedy decoding takes. Stage: core.
// Pure C++: no ggml, no I/O.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace pith {

// The token with the largest logit; of equals the lowest id.   REQUIRES: logits not empty.
inline int32_t likeliest_token(std::span<const float> logits) {
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace pith
