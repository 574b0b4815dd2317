// cpu_byte_products.cpp - the kernels of byte products, compiled once per instruction set, and the choice among them.
#include "attention/cpu/cpu_byte_products.h"

#include <algorithm>
#include <cmath>

#include "attention/cpu/cpu_byte_units.h"
#include "device/amx.h"
#include "device/avx_vnni.h"
#include "device/cpu_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/cpu/cpu_byte_products.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "attention/cpu/cpu_byte_products-inl.h"
#include "hwy/highway.h"

#if HWY_ONCE
namespace pith {

HWY_EXPORT(RoundToBytes);
HWY_EXPORT(PackByteEntries);
HWY_EXPORT(SumByteMagnitudes);
HWY_EXPORT(ByteTarget);

const char * to_string(ByteUnit unit) {
    constexpr const char * kNames[] = {"none", "AVX-VNNI", "AVX-512 VNNI", "AMX"};
    return kNames[static_cast<size_t>(unit)];
}

std::vector<ByteUnit> byte_units() {
    const int target = HWY_DYNAMIC_DISPATCH(ByteTarget)();
    std::vector<ByteUnit> units;
    if (target >= 2 && has_amx_bytes()) { units.push_back(ByteUnit::kAmx); }
    if (target >= 2) { units.push_back(ByteUnit::kAvx512Vnni); }
    if (target >= 1 && has_avx_vnni()) { units.push_back(ByteUnit::kAvxVnni); }
    return units;
}

ByteUnit best_byte_unit() {
    const std::vector<ByteUnit> units = byte_units();
    return units.empty() ? ByteUnit::kNone : units.front();
}

void round_to_bytes(const float * rows, size_t stride, int n, int dim, int8_t * bytes, float * scales, int32_t * starts) {
    HWY_DYNAMIC_DISPATCH(RoundToBytes)
    (rows, stride, static_cast<size_t>(n), static_cast<size_t>(dim), bytes, scales, starts);
}

void sum_byte_magnitudes(ByteUnit unit, const EntryRows & entries, std::span<const ByteRows> matrices,
                         std::span<float * const> out) {
    const bool tiles = unit == ByteUnit::kAmx;
    alignas(64) uint8_t packed[kByteEntries * kMaxByteDim];
    static_assert(kMaxByteDim % kByteTile == 0);
    alignas(64) float scales[kByteEntries];
    alignas(64) float sums[kByteEntries];
    const AmxSession session(tiles);
    for (int first = 0; first < entries.n; first += kByteEntries) {
        HWY_DYNAMIC_DISPATCH(PackByteEntries)(entries, static_cast<size_t>(first), !tiles, packed, scales);
        const auto n = static_cast<size_t>(std::min(kByteEntries, entries.n - first));
        for (size_t m = 0; m < matrices.size(); ++m) {
            if (tiles) {
                sum_byte_magnitudes_amx(packed, matrices[m], sums);
            } else if (unit == ByteUnit::kAvx512Vnni) {
                HWY_DYNAMIC_DISPATCH(SumByteMagnitudes)(packed, matrices[m], sums);
            } else {
                sum_byte_magnitudes_avx(packed, matrices[m], sums);
            }
            float * to = out[m] + first;
            for (size_t j = 0; j < n; ++j) { to[j] = sums[j] * scales[j]; }
        }
    }
}

}  // namespace pith
#endif
