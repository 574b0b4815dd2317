// random.cpp - xoshiro256** started by splitmix64; see random.h.
#include "tasks/random.h"

namespace pith::corpus {
namespace {

uint64_t rotate_left(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

uint64_t splitmix64(uint64_t & state) {
    state += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t packed_seed) {
    // splitmix64 is a bijection, so different seeds start from different states.
    for (uint64_t & word : state_) { word = splitmix64(packed_seed); }
}

uint64_t Random::next() {
    const uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotate_left(state_[3], 45);
    return result;
}

int Random::below(int n) {
    // The top 32 bits scaled: the bias is under n / 2^32, far below what a word list could show.
    return static_cast<int>(((next() >> 32) * static_cast<uint64_t>(n)) >> 32);
}

int Random::between(int low, int high) {
    return low + below(high - low + 1);
}

double Random::uniform() {
    return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::vector<int> Random::draw(int n, int size) {
    std::vector<int> all(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) { all[static_cast<size_t>(i)] = i; }
    for (int i = 0; i < n; ++i) { std::swap(all[static_cast<size_t>(i)], all[static_cast<size_t>(between(i, size - 1))]); }
    all.resize(static_cast<size_t>(n));
    return all;
}

}  // namespace pith::corpus
