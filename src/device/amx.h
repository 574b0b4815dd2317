// amx.h - x86's matrix unit: whether it may be used, and its tiles' shape. Stage: device.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, LDTILECFG; Linux, "Using XSTATE features".
#pragma once

#include <algorithm>
#include <cstdint>

namespace pith {

enum class AmxNumbers { kBf16, kInt8 };

// Whether the processor has tiles of such numbers and the system lets this process use them: it is asked for them. The AVX-512
// that goes with them is the caller's to ask for.
bool ask_for_amx(AmxNumbers numbers);

// What LDTILECFG reads, every tile whole: 16 rows of 64 bytes.
struct alignas(64) AmxTiles {
    static constexpr int kRows = 16;
    static constexpr int kRowBytes = 64;
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t bytes_per_row[16] = {};
    uint8_t rows[16] = {};
    AmxTiles() {
        std::fill(bytes_per_row, bytes_per_row + 8, static_cast<uint16_t>(kRowBytes));
        std::fill(rows, rows + 8, static_cast<uint8_t>(kRows));
    }
};
static_assert(sizeof(AmxTiles) == 64);

// What is at p is read or written where the compiler does not see it: GCC's functions for tiles name a few bytes of it, or
// none.
inline void settle(const void * p) {
#if defined(__GNUC__)
    __asm__ volatile("" : : "r"(p) : "memory");
#endif
}

// Whether processor and system have tiles of bytes, and AVX-512 (F, BW, VL) beside them; asks the system for them once.
bool has_amx_bytes();

// Shapes the calling thread's tiles, and puts back how they were: ggml shapes a thread's tiles once and relies on it.
// Not wanted: does nothing.
class AmxSession {
public:
    explicit AmxSession(bool wanted);
    ~AmxSession();
    AmxSession(const AmxSession &) = delete;
    AmxSession & operator=(const AmxSession &) = delete;

private:
    bool open_;
    alignas(64) uint8_t before_[64] = {};
};

}  // namespace pith
