// hash64_test.cpp - the hash is what its header says, however the bytes come, and one changed bit changes it.
#include "core/hash64.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

namespace pith::hash64_test {
namespace {

std::vector<uint8_t> random_bytes(size_t n) {
    std::mt19937 random(7);
    std::vector<uint8_t> bytes(n);
    for (uint8_t & byte : bytes) { byte = static_cast<uint8_t>(random()); }
    return bytes;
}

// As the header has it, word for word.
uint64_t plain_hash(std::vector<uint8_t> bytes) {
    uint64_t h = bytes.size();
    bytes.resize((bytes.size() + 31) / 32 * 32);
    uint64_t lanes[4];
    for (uint64_t k = 0; k < 4; ++k) { lanes[k] = 0xCBF29CE484222325ULL + k; }
    for (size_t i = 0; i < bytes.size() / 8; ++i) {
        uint64_t word = 0;
        for (size_t b = 0; b < 8; ++b) { word |= uint64_t{bytes[8 * i + b]} << (8 * b); }
        lanes[i % 4] = std::rotl(lanes[i % 4] ^ word, 29) * 0x9E3779B97F4A7C15ULL;
    }
    for (const uint64_t word : {lanes[0], lanes[1], lanes[2], lanes[3], uint64_t{0}}) {
        h = std::rotl(h ^ word, 29) * 0x9E3779B97F4A7C15ULL;
        h ^= h >> 32U;
    }
    return h;
}

TEST(Hash64, IsTheOneThatItsHeaderDescribes) {
    for (const size_t n : {0, 1, 7, 8, 31, 32, 33, 64, 1000, 4099}) {
        EXPECT_EQ(hash64(random_bytes(n)), plain_hash(random_bytes(n))) << n;
    }
    EXPECT_NE(hash64(std::vector<uint8_t>(1)), hash64(std::vector<uint8_t>(2)));
}

TEST(Hash64, PiecesOfAnySizeGiveTheHashOfTheWhole) {
    const std::vector<uint8_t> bytes = random_bytes(1003);
    std::mt19937 random(3);
    for (int i = 0; i < 100; ++i) {
        Hash64 hash;
        for (size_t at = 0; at < bytes.size();) {
            const size_t n = std::min<size_t>(random() % 70, bytes.size() - at);
            hash.add(std::span(bytes).subspan(at, n));
            at += n;
        }
        ASSERT_EQ(hash.value(), hash64(bytes));
    }
}

TEST(Hash64, AFlippedBitAnywhereChangesIt) {
    std::vector<uint8_t> bytes = random_bytes(301);
    const uint64_t before = hash64(bytes);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        const auto mask = static_cast<uint8_t>(1U << (bit % 8));
        bytes[bit / 8] ^= mask;
        EXPECT_NE(hash64(bytes), before) << bit;
        bytes[bit / 8] ^= mask;
    }
}

}  // namespace
}  // namespace pith::hash64_test
