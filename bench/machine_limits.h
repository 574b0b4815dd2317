// machine_limits.h - what a machine can do at most on some threads: bytes read from memory, multiply-adds in registers.
//
// Both are jobs for ggml's threads, so that they are measured in the same way, on the same threads and in the same minute as
// what they limit. Vectors are the widest that the processor has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attention/cpu/cpu_attention.h"
#include "ggml.h"

namespace pith {

// What multiply-adds are of. kWords: pairs of 16 bits, kBytes: fours of 8 bits, or pairs where a processor has no fours, on the
// instruction set in use (use_cpu_attention_target()); sums of 32 bits, or 16.
enum class LimitNumbers { kFloats, kWords, kBytes };

struct LimitJob {
    std::vector<std::pair<const uint8_t *, size_t>> spans;  // bytes to read
    int64_t n_rounds = 0;                                   // of multiply-adds, on each thread
    LimitNumbers numbers = LimitNumbers::kFloats;
    std::array<uint64_t, kMaxAttentionThreads> sums{};  // so that nothing is optimised away

    size_t n_bytes() const;
    double n_flops(int n_threads) const;  // two a multiply-add
};

// For ggml_custom_4d(), with a LimitJob: each thread reads its share of every span once,
void read_part(ggml_tensor * out, int ith, int n_threads, void * job);
// or multiplies and adds n_rounds times.
void multiply_part(ggml_tensor * out, int ith, int n_threads, void * job);

}  // namespace pith
