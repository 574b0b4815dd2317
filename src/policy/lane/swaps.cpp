// swaps.cpp - the lane as it would be chosen from all of its entries.
#include "policy/lane/swaps.h"

#include <algorithm>
#include <numeric>

namespace pith {
namespace {

// The most within [position - kBurstBehind, position + kBurstBefore].
std::vector<float> with_bursts(std::span<const int32_t> positions, std::span<const float> looked_for) {
    std::vector<float> most(positions.size());
    std::vector<size_t> peaks;  // a queue of falling values, whose front is the most in sight
    size_t front = 0;
    size_t next = 0;
    for (size_t i = 0; i < positions.size(); ++i) {
        for (; next < positions.size() && positions[next] <= positions[i] + kBurstBefore; ++next) {
            while (peaks.size() > front && looked_for[peaks.back()] <= looked_for[next]) { peaks.pop_back(); }
            peaks.push_back(next);
        }
        while (positions[peaks[front]] < positions[i] - kBurstBehind) { ++front; }
        most[i] = looked_for[peaks[front]];
    }
    return most;
}

}  // namespace

LaneSwaps choose_swaps(const LaneOfBoth & lane, std::span<const float> mean_paid) {
    const size_t n = lane.positions.size();
    std::vector<float> looked_for(n);
    for (size_t i = 0; i < n; ++i) { looked_for[i] = lane.paid[i] + mean_paid[static_cast<size_t>(lane.positions[i])]; }
    const std::vector<float> wanted = with_bursts(lane.positions, looked_for);
    std::vector<int32_t> order;
    size_t n_room = 0;
    for (size_t i = 0; i < n; ++i) {
        if (lane.is_protected[i] != 0) { continue; }
        order.push_back(static_cast<int32_t>(i));
        n_room += lane.is_cold[i] == 0 ? 1 : 0;
    }
    // In a burst all are wanted alike: first what is looked for itself, then what is here already, then the newer.
    std::ranges::sort(order, [&](int32_t a, int32_t b) {
        const auto i = static_cast<size_t>(a);
        const auto j = static_cast<size_t>(b);
        if (wanted[i] != wanted[j]) { return wanted[i] > wanted[j]; }
        if (looked_for[i] != looked_for[j]) { return looked_for[i] > looked_for[j]; }
        if (lane.is_cold[i] != lane.is_cold[j]) { return lane.is_cold[i] < lane.is_cold[j]; }
        return a > b;
    });
    LaneSwaps swaps;
    for (size_t r = 0; r < order.size(); ++r) {
        const bool is_cold = lane.is_cold[static_cast<size_t>(order[r])] != 0;
        if (r < n_room && is_cold) { swaps.in.push_back(order[r]); }
        if (r >= n_room && !is_cold) { swaps.out.push_back(order[r]); }
    }
    std::ranges::sort(swaps.in);
    std::ranges::sort(swaps.out);
    return swaps;
}

}  // namespace pith
