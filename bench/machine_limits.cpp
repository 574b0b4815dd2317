// machine_limits.cpp - plain loops that compilers turn into full-width loads and multiply-adds, one copy an instruction set.
#include "machine_limits.h"

#include <cstring>
#include <string_view>

#include "device/avx_vnni.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PITH_FOR_EACH_SET __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PITH_FOR_EACH_SET
#endif

namespace pith {
namespace {

constexpr size_t kStep = 256;  // bytes a turn of the reading loop
constexpr size_t kAhead = 4096;
typedef uint64_t Words __attribute__((vector_size(64)));

PITH_FOR_EACH_SET uint64_t sum_bytes(const uint8_t * from, size_t size) {
    Words sums[4] = {};
    for (size_t i = 0; i < size; i += kStep) {
        for (size_t c = 0; c < 4; ++c) {
            Words words;
            const uint8_t * line = from + i + 64 * c;
#if defined(__GNUC__)
            __builtin_prefetch(line + kAhead, 0, 2);  // what processors foresee by themselves is not all that memory can give
#endif
            std::memcpy(&words, line, sizeof(words));
            sums[c] += words;
        }
    }
    const Words sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[3] + sum[7];
}

// A latency of four cycles and two units a cycle need eight sums in flight; ten leave registers for the factors, also where
// there are sixteen.
constexpr int kSums = 10;

template <class Floats>
__attribute__((always_inline)) inline float multiply_add(int64_t n_rounds) {
    Floats sums[kSums];
    // From a number the compiler does not know: it folds what it can.
    for (int i = 0; i < kSums; ++i) { sums[i] = Floats{} + static_cast<float>(n_rounds % 1000 + i); }
    const Floats factor = Floats{} + 0.875F;
    const Floats term = Floats{} + 0.3F;
    for (int64_t i = 0; i < n_rounds; ++i) {
        for (Floats & sum : sums) { sum = sum * factor + term; }
    }
    float all = 0;
    for (const Floats & sum : sums) { all += sum[0] + sum[3]; }
    return all;
}

typedef float Floats4 __attribute__((vector_size(16)));
constexpr int kBaseWidth = 4;  // floats of a vector that every processor has

#if defined(__x86_64__) && defined(__GNUC__)
typedef float Floats8 __attribute__((vector_size(32)));
typedef float Floats16 __attribute__((vector_size(64)));

__attribute__((target("avx512f"))) float multiply_add_16(int64_t n_rounds) {
    return multiply_add<Floats16>(n_rounds);
}
__attribute__((target("avx2,fma"))) float multiply_add_8(int64_t n_rounds) {
    return multiply_add<Floats8>(n_rounds);
}
// Pairs of 16-bit numbers into 32-bit sums: with the compiler's own, since no vector type multiplies so.
typedef int Ints16 __attribute__((vector_size(64)));
__attribute__((target("avx512f,avx512vnni"))) float multiply_words_16(int64_t n_rounds) {
    Ints16 sums[kSums];
    const auto some = static_cast<int>(n_rounds % 1000);
    for (int i = 0; i < kSums; ++i) { sums[i] = Ints16{} + (some + i); }
    const Ints16 pairs = Ints16{} + (0x00020001 + some);
    for (int64_t i = 0; i < n_rounds; ++i) {
        for (Ints16 & sum : sums) {
            sum = reinterpret_cast<Ints16>(_mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(pairs),
                                                               reinterpret_cast<__m512i>(pairs)));
        }
    }
    int all = 0;
    for (const Ints16 & sum : sums) { all ^= sum[0] + sum[3]; }
    return static_cast<float>(all);
}
// The same of two instructions. Each product is of a sum: what does not change in the loop would leave it.
typedef int Ints8 __attribute__((vector_size(32)));
__attribute__((target("avx2"))) float multiply_words_8(int64_t n_rounds) {
    Ints8 sums[kSums];
    const auto some = static_cast<int>(n_rounds % 1000);
    for (int i = 0; i < kSums; ++i) { sums[i] = Ints8{} + (some + i); }
    const Ints8 pairs = Ints8{} + (0x00020001 + some);
    for (int64_t i = 0; i < n_rounds; ++i) {
        for (Ints8 & sum : sums) {
            const __m256i products = _mm256_madd_epi16(reinterpret_cast<__m256i>(sum), reinterpret_cast<__m256i>(pairs));
            sum = reinterpret_cast<Ints8>(_mm256_add_epi32(reinterpret_cast<__m256i>(sum), products));
        }
    }
    int all = 0;
    for (const Ints8 & sum : sums) { all ^= sum[0] + sum[3]; }
    return static_cast<float>(all);
}
// Of bytes: one of them changes from round to round.
#define PITH_BYTE_LOOP(NAME, TARGET, VECTOR, REGISTER, STEP)                            \
    __attribute__((target(TARGET))) float NAME(int64_t n_rounds) {                      \
        VECTOR sums[kSums];                                                             \
        const auto some = static_cast<int>(n_rounds % 100);                             \
        for (int i = 0; i < kSums; ++i) { sums[i] = VECTOR{} + (some + i); }            \
        const auto factor = reinterpret_cast<REGISTER>(VECTOR{} + (0x01020101 + some)); \
        for (int64_t i = 0; i < n_rounds; ++i) {                                        \
            for (VECTOR & one : sums) {                                                 \
                const auto sum = reinterpret_cast<REGISTER>(one);                       \
                one = reinterpret_cast<VECTOR>(STEP);                                   \
            }                                                                           \
        }                                                                               \
        int all = 0;                                                                    \
        for (const VECTOR & sum : sums) { all ^= sum[0] + sum[3]; }                     \
        return static_cast<float>(all);                                                 \
    }
PITH_BYTE_LOOP(multiply_bytes_16, "avx512f,avx512bw,avx512vnni", Ints16, __m512i, _mm512_dpbusd_epi32(sum, factor, factor))
PITH_BYTE_LOOP(multiply_byte_pairs_16, "avx512f,avx512bw", Ints16, __m512i,
               _mm512_add_epi16(sum, _mm512_maddubs_epi16(sum, factor)))
PITH_BYTE_LOOP(multiply_byte_pairs_8, "avx2", Ints8, __m256i, _mm256_add_epi16(sum, _mm256_maddubs_epi16(sum, factor)))
#ifdef PITH_COMPILES_AVX_VNNI
PITH_BYTE_LOOP(multiply_bytes_8, "avx2,avxvnni", Ints8, __m256i, _mm256_dpbusd_avx_epi32(sum, factor, factor))
#else
float multiply_bytes_8(int64_t n_rounds) {
    return multiply_byte_pairs_8(n_rounds);
}
#endif
#undef PITH_BYTE_LOOP
// Bytes of a vector, and whether products of four are one instruction.
std::pair<int, bool> byte_way() {
    const std::string_view target = cpu_attention_target();
    if (target == "AVX3_DL") { return {64, true}; }
    if (target == "AVX3") { return {64, false}; }
    return {32, target == "AVX2_VNNI"};
}
float multiply_bytes(int64_t n_rounds) {
    const auto [width, fours] = byte_way();
    if (width == 64) { return fours ? multiply_bytes_16(n_rounds) : multiply_byte_pairs_16(n_rounds); }
    return fours ? multiply_bytes_8(n_rounds) : multiply_byte_pairs_8(n_rounds);
}
int vector_width() {
    return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("fma") ? 8 : kBaseWidth;
}
int words_width() {
    return __builtin_cpu_supports("avx512vnni") ? 16 : 8;
}
float multiply_words(int64_t n_rounds) {
    return words_width() == 16 ? multiply_words_16(n_rounds) : multiply_words_8(n_rounds);
}
float multiply_add_widest(int64_t n_rounds) {
    switch (vector_width()) {
        case 16:
            return multiply_add_16(n_rounds);
        case 8:
            return multiply_add_8(n_rounds);
        default:
            return multiply_add<Floats4>(n_rounds);
    }
}
#else
std::pair<int, bool> byte_way() {
    return {4 * kBaseWidth, false};
}
float multiply_bytes(int64_t) {
    return 0;
}
int words_width() {
    return kBaseWidth;
}
float multiply_words(int64_t) {
    return 0;
}
int vector_width() {
    return kBaseWidth;
}
float multiply_add_widest(int64_t n_rounds) {
    return multiply_add<Floats4>(n_rounds);
}
#endif

}  // namespace

size_t LimitJob::n_bytes() const {
    size_t n = 0;
    for (const auto & span : spans) { n += span.second; }
    return n;
}

double LimitJob::n_flops(int n_threads) const {
    const int width = numbers == LimitNumbers::kFloats  ? vector_width()
                      : numbers == LimitNumbers::kWords ? 2 * words_width()
                                                        : byte_way().first;
    return 2.0 * kSums * width * static_cast<double>(n_rounds) * n_threads;
}

void read_part(ggml_tensor * /*out*/, int ith, int n_threads, void * job) {
    auto & self = *static_cast<LimitJob *>(job);
    for (const auto & [bytes, size] : self.spans) {
        const size_t share = size / kStep / static_cast<size_t>(n_threads) * kStep;
        self.sums[static_cast<size_t>(ith)] += sum_bytes(bytes + share * static_cast<size_t>(ith), share);
    }
}

void multiply_part(ggml_tensor * /*out*/, int ith, int /*n_threads*/, void * job) {
    auto & self = *static_cast<LimitJob *>(job);
    const float sum = self.numbers == LimitNumbers::kFloats  ? multiply_add_widest(self.n_rounds)
                      : self.numbers == LimitNumbers::kWords ? multiply_words(self.n_rounds)
                                                             : multiply_bytes(self.n_rounds);
    self.sums[static_cast<size_t>(ith)] += sum > 0 ? 1 : 0;
}

}  // namespace pith
