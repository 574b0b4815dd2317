// cpu_rows-inl.h - walks over stored rows, vector by vector. Included once per instruction set. Stage: attention → evidence.
#if defined(PITH_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PITH_CPU_ROWS_INL_H_
#undef PITH_CPU_ROWS_INL_H_
#else
#define PITH_CPU_ROWS_INL_H_
#endif

#include "attention/cpu/cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

// visit(c, vector of elements from c on) over a row.
template <class Load, class Visit>
HWY_INLINE void ForEachVector(const uint8_t * row, size_t dim, Visit visit) {
    for (size_t c = 0; c < dim; c += Load::kBlock * kN) {
        const auto shared = Load::Shared(row, c);
        for (size_t i = 0; i < Load::kBlock; ++i) { visit(c + i * kN, Load::At(row, c + i * kN, shared)); }
    }
}

// visit(Load, row, index) over the rows.
template <class Visit>
HWY_INLINE void ForEachRow(const EntryRows & entries, Visit visit) {
    WithLoader(entries.format, [&](auto load) HWY_ATTR {
        const auto * row = static_cast<const uint8_t *>(entries.rows);
        for (int j = 0; j < entries.n; ++j, row += entries.stride) { visit(load, row, j); }
    });
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
