// hash64.cpp - blocks of four words, and what is left at the end.
#include "core/hash64.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>

namespace pith {
namespace {

constexpr uint64_t kFactor = 0x9E3779B97F4A7C15ULL;  // odd, so that multiplying by it can be undone

uint64_t step(uint64_t state, uint64_t word) {
    return std::rotl(state ^ word, 29) * kFactor;
}

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

}  // namespace

void Hash64::add_block(const uint8_t * block) {
    std::array<uint64_t, 4> words{};
    std::memcpy(words.data(), block, kBlock);
    for (size_t i = 0; i < words.size(); ++i) { lanes_[i] = step(lanes_[i], words[i]); }
}

void Hash64::add(std::span<const uint8_t> bytes) {
    const auto n_waiting = static_cast<size_t>(n_bytes_ % kBlock);
    n_bytes_ += bytes.size();
    if (n_waiting > 0) {
        const size_t n = std::min(bytes.size(), kBlock - n_waiting);
        std::copy_n(bytes.data(), n, rest_.data() + n_waiting);
        bytes = bytes.subspan(n);
        if (n_waiting + n < kBlock) { return; }
        add_block(rest_.data());
    }
    std::array<uint64_t, 4> lanes = lanes_;  // in registers
    while (bytes.size() >= kBlock) {
        std::array<uint64_t, 4> words{};
        std::memcpy(words.data(), bytes.data(), kBlock);
        for (size_t i = 0; i < words.size(); ++i) { lanes[i] = step(lanes[i], words[i]); }
        bytes = bytes.subspan(kBlock);
    }
    lanes_ = lanes;
    std::copy_n(bytes.data(), bytes.size(), rest_.data());
}

uint64_t Hash64::value() const {
    Hash64 whole = *this;
    if (const auto n_waiting = static_cast<size_t>(n_bytes_ % kBlock); n_waiting > 0) {
        std::fill(whole.rest_.begin() + static_cast<std::ptrdiff_t>(n_waiting), whole.rest_.end(), uint8_t{0});
        whole.add_block(whole.rest_.data());
    }
    uint64_t hash = n_bytes_;
    const auto mix = [&hash](uint64_t word) {
        hash = step(hash, word);
        hash ^= hash >> 32U;
    };
    for (const uint64_t lane : whole.lanes_) { mix(lane); }
    mix(0);
    return hash;
}

uint64_t hash64(std::span<const uint8_t> bytes) {
    Hash64 hash;
    hash.add(bytes);
    return hash.value();
}

std::string hash_text(uint64_t hash) {
    std::array<char, 20> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
    return text.data();
}

}  // namespace pith
