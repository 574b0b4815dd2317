// sha256.cpp - FIPS 180-4, sections 5.1.1 (padding) and 6.2.2 (rounds).
#include "common/models/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace pith::app {
namespace {

constexpr size_t kBlock = 64;

// Section 4.2.2.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t read_big_endian(const uint8_t * bytes) {
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

}  // namespace

void Sha256::take_block(const uint8_t * block) {
    uint32_t w[64];
    for (int t = 0; t < 16; ++t) { w[t] = read_big_endian(block + 4 * t); }
    for (int t = 16; t < 64; ++t) {
        const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (int t = 0; t < 64; ++t) {
        const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
        const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
        const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
        const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    const std::array<uint32_t, 8> worked = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state_.size(); ++i) { state_[i] += worked[i]; }
}

void Sha256::add(std::string_view bytes) {
    n_bytes_ += bytes.size();
    const auto * next = reinterpret_cast<const uint8_t *>(bytes.data());
    size_t left = bytes.size();
    if (n_waiting_ > 0) {
        const size_t n = std::min(left, kBlock - n_waiting_);
        std::memcpy(waiting_.data() + n_waiting_, next, n);
        n_waiting_ += n;
        next += n;
        left -= n;
        if (n_waiting_ < kBlock) { return; }
        take_block(waiting_.data());
        n_waiting_ = 0;
    }
    for (; left >= kBlock; left -= kBlock, next += kBlock) { take_block(next); }
    if (left > 0) { std::memcpy(waiting_.data(), next, left); }
    n_waiting_ = left;
}

std::string Sha256::hex() {
    const uint64_t n_bits = n_bytes_ * 8;
    std::string padding(1, '\x80');
    padding.append((kBlock + 55 - n_waiting_) % kBlock, '\0');  // up to 8 bytes before a block's end
    for (int shift = 56; shift >= 0; shift -= 8) { padding.push_back(static_cast<char>(n_bits >> shift & 0xFF)); }
    add(padding);
    std::string text;
    for (const uint32_t word : state_) {
        for (int shift = 28; shift >= 0; shift -= 4) { text.push_back("0123456789abcdef"[word >> shift & 0xF]); }
    }
    *this = Sha256();
    return text;
}

}  // namespace pith::app
