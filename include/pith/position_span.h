// position_span.h - a run of original token positions.
#pragma once

#include <cstdint>

namespace pith {

// Original positions [begin, end).
struct PositionSpan {
    int32_t begin = 0;
    int32_t end = 0;
    bool operator==(const PositionSpan &) const = default;
};

}  // namespace pith
