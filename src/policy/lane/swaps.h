// swaps.h - which evicted entries a question wants back, and which of those that are here leave for them. Stage: select.
// Pure C++: no ggml, no I/O.
//
// In two steps: how much each entry of a lane is wanted, and which of them it holds then, as many as now. Heads keep the room
// that the policy gave them: what some look up while an answer is written no question shows, and one ranking of all lanes'
// entries takes their room for heads that look at much of the text.
//
// Source:  RepairKV: positions that a question's tokens pay most to come back, with the text around each.
// Differs: there the same positions in every lane; here each lane has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pith {

// Of one lane, kept and cold entries together, ascending by position.
struct LaneOfBoth {
    std::vector<int32_t> positions;
    std::vector<uint8_t> is_cold;
    std::vector<float>
        paid;  // what the question's queries pay to it, of all that they pay to these, summed over queries and their heads
    std::vector<uint8_t> is_protected;

    // Without the entries from a position on; of those nothing has been said yet. Returns how many are left.
    size_t cut_at(int32_t end) {
        const auto n = std::ranges::lower_bound(positions, end) - positions.begin();
        positions.resize(static_cast<size_t>(n));
        is_cold.resize(static_cast<size_t>(n));
        return static_cast<size_t>(n);
    }
};

inline constexpr int kWantedAround = 12;  // an entry that is looked for brings so many positions on both sides

// [entry]: the most that is paid within kWantedAround, and a little for what is paid to the entry itself; infinity: protected.
// Cost: O(n).
std::vector<float> wants_of(const LaneOfBoth & lane);

struct LaneSwaps {  // indices into the lane's entries, ascending
    std::vector<int32_t> out;
    std::vector<int32_t> in;
};

// It holds the n that are wanted most; of equals those that are here already, then the newer. REQUIRES: n is at most all.
LaneSwaps choose_swaps(const LaneOfBoth & lane, std::span<const float> wants, int64_t n);

}  // namespace pith
