// quantised_product_vnni.cpp - the kernels of AVX2, with products of four bytes in one instruction (device/avx_vnni.h).
#include "matmul/quantised_product_vnni.h"

#include "device/avx_vnni.h"
#include "device/cpu_targets.h"

#ifdef PITH_COMPILES_AVX_VNNI

// One set, whatever the rest is compiled for.
#define HWY_COMPILE_ONLY_STATIC
#undef HWY_BASELINE_TARGETS
#define HWY_BASELINE_TARGETS HWY_AVX2
#include "hwy/highway.h"
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX2 ",avxvnni"
#define PITH_AVX_VNNI
// The order matters: what the kernels are compiled for comes first.
#include "matmul/quantised_multiply-inl.h"

namespace pith {

void multiply_columns_avx_vnni(const QuantisedProduct & product, size_t first, size_t end, ProductUnit unit) {
    N_AVX2_VNNI::MultiplyQuantised(product, first, end, unit);
}

}  // namespace pith

#else

namespace pith {

void multiply_columns_avx_vnni(const QuantisedProduct &, size_t, size_t, ProductUnit) {}

}  // namespace pith

#endif
