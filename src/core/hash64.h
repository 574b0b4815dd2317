// hash64.h - a 64-bit hash of bytes, at the speed of memory: checksums of files and identities of tensors. Stage: all.
// Pure C++: no ggml, no I/O.
//
// Four lanes of 64 bits. The bytes are taken as little-endian words w[0], w[1], …, the last block of 32 bytes filled up with
// zeros; word i goes into lane i mod 4:
//   lane = rotate_left(lane xor w, 29) · 0x9E3779B97F4A7C15     (lane k begins as 0xCBF29CE484222325 + k)
// and at the end, beginning with h = the number of bytes, for each lane in turn and once more with 0
//   h = rotate_left(h xor lane, 29) · 0x9E3779B97F4A7C15,  h = h xor (h >> 32)
// Each step can be undone, so bytes that differ in one word alone never have the same hash. It guards against accidents, not
// against whoever wants two files to have the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace pith {

// Bytes in pieces of any size. Threads: one at a time.
class Hash64 {
public:
    void add(std::span<const uint8_t> bytes);
    uint64_t value() const;  // of all bytes so far

private:
    static constexpr size_t kBlock = 32;
    static constexpr uint64_t kBegin = 0xCBF29CE484222325ULL;

    void add_block(const uint8_t * block);

    std::array<uint64_t, 4> lanes_{kBegin, kBegin + 1, kBegin + 2, kBegin + 3};
    std::array<uint8_t, kBlock> rest_{};
    uint64_t n_bytes_ = 0;
};

uint64_t hash64(std::span<const uint8_t> bytes);

// 16 hexadecimal digits.
std::string hash_text(uint64_t hash);

}  // namespace pith
