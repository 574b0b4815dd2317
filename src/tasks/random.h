// random.h - the generator's own random numbers: the same on every platform and compiler.
// Pure C++: no I/O.
//
// Seed spaces. A stream is named by (space, seed, index); the three are packed into 64 bits without loss, so two
// different names never share a starting state: a task sample (kTask) is never a training document (kTraining).
//   bits 63..62  space     bits 61..40  seed (22 bits)     bits 39..0  index (40 bits)
// Source: xoshiro256** and splitmix64 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace pith::corpus {

enum class SeedSpace : uint64_t {
    kTraining = 0,    // documents the reference model learns from
    kValidation = 1,  // documents that measure its held-out loss
    kTask = 2,        // task samples: what `demo`, the tests and the benchmarks ask
    kVocabulary = 3,  // sentences the vocabulary is trained on
};

// Higher bits of seed (beyond 22) and index (beyond 40) are dropped.
constexpr uint64_t pack_seed(SeedSpace space, uint64_t seed, uint64_t index) {
    return static_cast<uint64_t>(space) << 62 | (seed & 0x3FFFFFU) << 40 | (index & 0xFFFFFFFFFFU);
}

// Threads: one at a time.
class Random {
public:
    explicit Random(uint64_t packed_seed);
    Random(SeedSpace space, uint64_t seed, uint64_t index) : Random(pack_seed(space, seed, index)) {}

    uint64_t next();
    int below(int n);                // uniform in [0, n); REQUIRES: n > 0
    int between(int low, int high);  // uniform in [low, high]
    double uniform();                // [0, 1)
    bool chance(double probability) { return uniform() < probability; }

    template <class T>
    void shuffle(std::vector<T> & items) {
        for (size_t i = items.size(); i > 1; --i) {
            std::swap(items[i - 1], items[static_cast<size_t>(below(static_cast<int>(i)))]);
        }
    }
    // n different numbers of [0, size), in random order. REQUIRES: 0 <= n <= size.
    std::vector<int> draw(int n, int size);
    // Items are anything indexable with size(): one of them.
    template <class List>
    const auto & pick(const List & list) {
        return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
    }

private:
    uint64_t state_[4];
};

}  // namespace pith::corpus
