// lcs.cpp - the table, then the way back.
#include "benchmarks/metrics/lcs.h"

#include <algorithm>
#include <cstdint>

namespace pith::benchmarks {

std::vector<size_t> longest_common_subsequence(std::span<const std::u32string> a, std::span<const std::u32string> b, Tie tie) {
    const size_t width = b.size() + 1;
    std::vector<uint32_t> length((a.size() + 1) * width);  // [i · width + j]: of the first i words of a and j of b
    const auto at = [&](size_t i, size_t j) -> uint32_t & { return length[i * width + j]; };
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            at(i, j) = a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
        }
    }
    std::vector<size_t> found;
    for (size_t i = a.size(), j = b.size(); i > 0 && j > 0;) {
        if (a[i - 1] == b[j - 1]) {
            found.push_back(--i);
            --j;
            continue;
        }
        const uint32_t back_in_a = at(i - 1, j);
        const uint32_t back_in_b = at(i, j - 1);
        const bool go_in_a = back_in_a > back_in_b || (back_in_a == back_in_b && tie == Tie::kBackInA);
        go_in_a ? --i : --j;
    }
    std::reverse(found.begin(), found.end());
    return found;
}

}  // namespace pith::benchmarks
