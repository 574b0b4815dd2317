// swaps.cpp - lanes as they would be chosen from all of their entries.
#include "policy/lane/swaps.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace pith {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kOwn = 0x1p-10F;  // so that of what is around an entry the entry itself comes first

// Of floats that are not negative bits ascend as they do.
uint32_t rank_of(float want) {
    return std::bit_cast<uint32_t>(want);
}

// How many it holds if all entries of this rank or a higher one are held.
int64_t n_from(uint32_t rank, const WantingLane & lane) {
    const int64_t n = std::ranges::count_if(lane.wants, [rank](float want) { return rank_of(want) >= rank; });
    return std::max(n, lane.n_held / kLeastShare);
}

}  // namespace

std::vector<float> wants_of(const LaneOfBoth & lane) {
    const size_t n = lane.positions.size();
    std::vector<float> wants(n);
    std::vector<size_t> peaks;  // a queue of falling values, whose front is the most in sight
    size_t front = 0;
    size_t next = 0;
    for (size_t i = 0; i < n; ++i) {
        for (; next < n && lane.positions[next] <= lane.positions[i] + kWantedAround; ++next) {
            while (peaks.size() > front && lane.paid[peaks.back()] <= lane.paid[next]) { peaks.pop_back(); }
            peaks.push_back(next);
        }
        while (lane.positions[peaks[front]] < lane.positions[i] - kWantedAround) { ++front; }
        wants[i] = lane.is_protected[i] != 0 ? kInfinity : lane.paid[peaks[front]] + kOwn * lane.paid[i];
    }
    return wants;
}

std::vector<int64_t> numbers_to_hold(std::span<const WantingLane> lanes) {
    int64_t n_free = 0;
    for (const WantingLane & lane : lanes) { n_free += lane.n_held; }
    const auto n_wanted = [&](uint32_t rank) {
        int64_t n = 0;
        for (const WantingLane & lane : lanes) { n += n_from(rank, lane); }
        return n;
    };
    // The lowest rank from which on no more are wanted than there is room for.
    uint32_t too_low = 0;
    uint32_t rank = n_wanted(0) <= n_free ? 0 : rank_of(kInfinity);
    while (rank > too_low + 1) {
        const uint32_t middle = too_low + (rank - too_low) / 2;
        (n_wanted(middle) <= n_free ? rank : too_low) = middle;
    }
    n_free -= n_wanted(rank);
    // Of those of the next rank, which are wanted alike, as many as there is still room for.
    std::vector<int64_t> numbers;
    for (const WantingLane & lane : lanes) {
        const int64_t n = n_from(rank, lane);
        const int64_t more = rank > 0 ? std::min(n_from(rank - 1, lane) - n, n_free) : 0;
        numbers.push_back(n + more);
        n_free -= more;
    }
    return numbers;
}

LaneSwaps choose_swaps(const LaneOfBoth & lane, std::span<const float> wants, int64_t n) {
    std::vector<int32_t> order(lane.positions.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](int32_t a, int32_t b) {
        const auto i = static_cast<size_t>(a);
        const auto j = static_cast<size_t>(b);
        if (wants[i] != wants[j]) { return wants[i] > wants[j]; }
        if (lane.is_cold[i] != lane.is_cold[j]) { return lane.is_cold[i] < lane.is_cold[j]; }
        return a > b;
    });
    LaneSwaps swaps;
    for (int64_t r = 0; r < std::ssize(order); ++r) {
        const int32_t entry = order[static_cast<size_t>(r)];
        const bool is_cold = lane.is_cold[static_cast<size_t>(entry)] != 0;
        if (r < n && is_cold) { swaps.in.push_back(entry); }
        if (r >= n && !is_cold) { swaps.out.push_back(entry); }
    }
    std::ranges::sort(swaps.in);
    std::ranges::sort(swaps.out);
    return swaps;
}

}  // namespace pith
