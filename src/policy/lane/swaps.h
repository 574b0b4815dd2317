// swaps.h - which of a lane's evicted entries a question wants back, and which of those it holds leave for them. Stage: select.
// Pure C++: no ggml, no I/O.
//
// Source:  RepairKV: positions that a question's tokens pay most to come back, with a burst of tokens around each.
// Differs: there the same positions in every lane; here each lane has its own, and what the question pays on average over all
//          lanes counts in each of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith {

// Of one lane, kept and cold entries together, ascending by position.
struct LaneOfBoth {
    std::vector<int32_t> positions;
    std::vector<uint8_t> is_cold;
    std::vector<float> paid;  // the most that a query of the question pays to it, over all of these
    std::vector<uint8_t> is_protected;
};

struct LaneSwaps {  // indices into the above, ascending; as many of one as of the other
    std::vector<int32_t> out;
    std::vector<int32_t> in;
};

inline constexpr int kBurstBehind = 20;  // an entry that is looked for brings the text that follows it
inline constexpr int kBurstBefore = 2;

// mean_paid [position]: over all lanes.   Cost: O(n log n), n its entries.
LaneSwaps choose_swaps(const LaneOfBoth & lane, std::span<const float> mean_paid);

}  // namespace pith
