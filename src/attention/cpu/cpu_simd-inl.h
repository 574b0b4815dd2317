// cpu_simd-inl.h - 2^x, and loads of every K/V format. Included once per instruction set. Stage: attention.
#if defined(PITH_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_SIMD_INL_H_
#undef PITH_CPU_SIMD_INL_H_
#else
#define PITH_CPU_SIMD_INL_H_
#endif

#include "device/cpu_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

inline constexpr size_t kSteps = kManyRegisters ? 8 : 4;  // products of up to 3 vectors in registers at a time

// 2^x for x <= 0; 0 below -126, so also for minus infinity; 1 at 0; what is not a number stays so. Relative error 2e-7: a
// minimax polynomial of degree 5 on [-1/2, 1/2] times 2^round(x), put together in the exponent's bits.
HWY_INLINE VF Exp2(VF x) {
    const DF df;
    const DI di;
    const auto is_zero = hn::Lt(x, hn::Set(df, -126.0F));
    const auto shift = hn::Set(df, 12582912.0F);  // 1.5 * 2^23: adding it rounds to a whole number, held in the low bits
    const auto shifted = hn::Add(x, shift);
    const auto r = hn::Sub(x, hn::Sub(shifted, shift));
    auto p = hn::MulAdd(hn::Set(df, 0.001326474252673269F), r, hn::Set(df, 0.009671517994862704F));
    p = hn::MulAdd(p, r, hn::Set(df, 0.055507337560035765F));
    p = hn::MulAdd(p, r, hn::Set(df, 0.24022242004198172F));
    p = hn::MulAdd(p, r, hn::Set(df, 0.6931469775592608F));
    p = hn::MulAdd(p, r, hn::Set(df, 1.0F));
    const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
    return hn::IfThenZeroElse(is_zero, hn::BitCast(df, hn::Add(hn::BitCast(di, p), exponent)));
}

// Each: elements [c, c + kN) of a row; c is a multiple of kN. What a block's elements share is loaded once: Shared(row, c) for
// any c of the block, and kBlock vectors in a row can use it.
struct Nothing {};

struct LoadF32 {
    static constexpr size_t kBlock = 1;
    static HWY_INLINE Nothing Shared(const uint8_t *, size_t) { return {}; }
    static HWY_INLINE VF At(const uint8_t * row, size_t c, Nothing) {
        return hn::LoadU(DF(), reinterpret_cast<const float *>(row) + c);
    }
};

struct LoadF16 : LoadF32 {
    static HWY_INLINE VF At(const uint8_t * row, size_t c, Nothing) {
        const hn::Rebind<hwy::float16_t, DF> d16;
        return hn::PromoteTo(DF(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t *>(row) + c));
    }
};

struct LoadBF16 : LoadF32 {
    static HWY_INLINE VF At(const uint8_t * row, size_t c, Nothing) {
        const hn::Rebind<hwy::bfloat16_t, DF> d16;
        return hn::PromoteTo(DF(), hn::LoadU(d16, reinterpret_cast<const hwy::bfloat16_t *>(row) + c));
    }
};

// The f16 in front of a block of 32, in every lane.
HWY_INLINE VF BlockScale(const uint8_t * block) {
    const hn::Rebind<hwy::float16_t, DF> d16;
    const hn::RebindToUnsigned<decltype(d16)> du16;
    uint16_t bits;
    hwy::CopyBytes<sizeof(bits)>(block, &bits);
    return hn::PromoteTo(DF(), hn::BitCast(d16, hn::Set(du16, bits)));
}

struct LoadQ8_0 {  // blocks of {f16 scale, 32 signed bytes}
    static constexpr size_t kBlock = 32 / kN;
    static HWY_INLINE VF Shared(const uint8_t * row, size_t c) { return BlockScale(row + c / 32 * 34); }
    static HWY_INLINE VF At(const uint8_t * row, size_t c, VF scale) {
        const hn::Rebind<int8_t, DF> d8;
        const auto values = hn::LoadU(d8, reinterpret_cast<const int8_t *>(row + c / 32 * 34 + 2) + c % 32);
        return hn::Mul(scale, hn::ConvertTo(DF(), hn::PromoteTo(DI(), values)));
    }
};

struct LoadQ4_0 {  // blocks of {f16 scale, 16 bytes}; byte i holds elements i (low half) and i + 16, each plus 8
    static constexpr size_t kBlock = 32 / kN;
    // Where a vector holds all 16 values of a half byte: those values, times the scale.
    static HWY_INLINE VF Shared(const uint8_t * row, size_t c) {
        const auto scale = BlockScale(row + c / 32 * 18);
        if constexpr (kN == 16) { return hn::Mul(scale, hn::Iota(DF(), -8.0F)); }
        return scale;
    }
    static HWY_INLINE VF At(const uint8_t * row, size_t c, VF shared) {
        const hn::Rebind<uint8_t, DF> d8;
        const auto bytes = hn::PromoteTo(DI(), hn::LoadU(d8, row + c / 32 * 18 + 2 + c % 16));
        const auto halves = c % 32 < 16 ? hn::And(bytes, hn::Set(DI(), 15)) : hn::ShiftRight<4>(bytes);
        if constexpr (kN == 16) { return hn::TableLookupLanes(shared, hn::IndicesFromVec(DF(), halves)); }
        return hn::Mul(shared, hn::ConvertTo(DF(), hn::Sub(halves, hn::Set(DI(), 8))));
    }
};

// Calls visit with the loader of a format.
template <class Visit>
HWY_INLINE void WithLoader(KvFormat format, Visit visit) {
    switch (format) {
        case KvFormat::kF32:
            return visit(LoadF32());
        case KvFormat::kF16:
            return visit(LoadF16());
        case KvFormat::kBF16:
            return visit(LoadBF16());
        case KvFormat::kQ8_0:
            return visit(LoadQ8_0());
        case KvFormat::kQ4_0:
            return visit(LoadQ4_0());
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
