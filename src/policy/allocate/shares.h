// shares.h - weights → entries per lane, exact in sum. Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// share = clamp(λ · weight, 0, net length) with one λ for all lanes, so that the shares add up to the total. Lanes of weight 0
// get something only when all others are full; they then divide the rest evenly.
// Shares are fixed-point numbers of 20 binary digits: noise of the last digits of a double must not decide a remainder tie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pith {

inline constexpr int kShareBits = 20;

// REQUIRES: weights finite and ≥ 0, lengths ≥ 0, 0 ≤ total ≤ Σ lengths.   Cost: O(lanes · log lanes).
std::vector<int64_t> divide(std::span<const double> weights, std::span<const int> net_lengths, int64_t total);

// The same before it is fixed: for allocators that divide among layers first.
std::vector<double> divide_real(std::span<const double> weights, std::span<const int> net_lengths, int64_t total);
// ⌈share⌉, where what is within half of 2^-20 of a whole number is that number.
int64_t ceil_share(double share);

// Largest remainder, once; remainder ties go to the lower lane (layer-major: the lower layer, then the lower head).
// The sum is exactly `total`.
std::vector<int> round_shares(std::span<const int64_t> shares, std::span<const int> net_lengths, int64_t total);

// Every share rounded up: what a lane may hold while layers still arrive.
std::vector<int> ceil_shares(std::span<const int64_t> shares, std::span<const int> net_lengths);

}  // namespace pith
