// quantised_product.cpp - the kernels of each instruction set, which of them is used, and what each thread computes.
#include "matmul/quantised_product.h"

#include <atomic>

#include "device/amx.h"
#include "device/avx_vnni.h"
#include "device/cpu_targets.h"
#include "matmul/amx_product.h"
#include "matmul/quantised_product_vnni.h"
#include "matmul/share.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "matmul/quantised_product.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "hwy/highway.h"
#include "matmul/quantised_multiply-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

int64_t QuantisedTarget() {
    return HWY_TARGET;
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith {

HWY_EXPORT(QuantiseRows);
HWY_EXPORT(MultiplyQuantised);
HWY_EXPORT(QuantisedTarget);

namespace {

constexpr size_t kMatrixRows = 8;  // from so many rows on the matrix unit is faster

std::atomic<ProductUnit> unit_in_use = ProductUnit::kBest;

bool better_than(int64_t target) {  // better sets have smaller numbers
    return HWY_ARCH_X86 != 0 && HWY_DYNAMIC_DISPATCH(QuantisedTarget)() <= target;
}

bool is_avx_vnni() {
    return HWY_ARCH_X86 != 0 && HWY_DYNAMIC_DISPATCH(QuantisedTarget)() == HWY_AVX2 && has_avx_vnni();
}

}  // namespace

void use_product_unit(ProductUnit unit) {
    unit_in_use = unit;
}

bool has_matrix_unit() {
    return better_than(HWY_AVX3_DL) && has_amx_product();
}

void quantise_part(const RowsToQuantise & rows, int ith, int n_threads) {
    const auto [first, end] = share_of(rows.n, 1, ith, n_threads);
    HWY_DYNAMIC_DISPATCH(QuantiseRows)(rows, first, end);
}

void multiply_part(const QuantisedProduct & product, int ith, int n_threads) {
    const auto [first, end] = share_of(product.n_out, kColumnsDealt, ith, n_threads);
    if (first < end) { multiply_columns(product, first, end); }
}

void multiply_columns(const QuantisedProduct & product, size_t first, size_t end) {
    if (product.n == 0) { return; }
    ProductUnit unit = unit_in_use;
    if (!has_matrix_product(product.type)) {
        unit = unit == ProductUnit::kMatrix ? ProductUnit::kVectors : unit;
    } else if (unit == ProductUnit::kBest && product.n >= kMatrixRows && has_matrix_unit()) {
        unit = ProductUnit::kMatrix;
    }
    if (is_avx_vnni()) { return multiply_columns_avx_vnni(product, first, end, unit); }
    const AmxSession session(unit == ProductUnit::kMatrix);
    HWY_DYNAMIC_DISPATCH(MultiplyQuantised)(product, first, end, unit);
}

bool quantised_product_pays(QuantType type, bool experts) {
    // The matrix unit has no use for scales of 32 weights each here; ggml's layout for it is the faster one for few rows.
    const bool ggml_has_tiles = type == QuantType::kQ8_0 || type == QuantType::kQ4_0 || type == QuantType::kQ4_1;
    if (ggml_has_tiles && !experts && has_matrix_unit()) { return false; }
    // AVX-512 without products of four bytes has no signs for bytes either, which Q8_0 would want there.
    if (type == QuantType::kQ8_0 && HWY_DYNAMIC_DISPATCH(QuantisedTarget)() == HWY_AVX3) { return false; }
    return better_than(HWY_AVX2);
}

}  // namespace pith
#endif
