// cpu_entries.cpp - the kernels over stored rows, compiled once per instruction set, and the choice among them at run time.
#include "attention/cpu/cpu_entries.h"

#include <algorithm>
#include <cmath>

#include "device/cpu_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/cpu/cpu_entries.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "attention/cpu/cpu_entries-inl.h"
#include "hwy/highway.h"

#if HWY_ONCE
namespace pith {

HWY_EXPORT(EntryNorms);
HWY_EXPORT(AddUnitEntries);
HWY_EXPORT(ProjectUnitEntries);
HWY_EXPORT(ReduceProducts);
HWY_EXPORT(Moments);

void norms_of_entries(const EntryRows & entries, EntryNorm norm, float * out) {
    HWY_DYNAMIC_DISPATCH(EntryNorms)(entries, norm == EntryNorm::kL1, out);
}

void add_unit_entries(const EntryRows & entries, double * sum) {
    HWY_DYNAMIC_DISPATCH(AddUnitEntries)(entries, sum);
}

void project_unit_entries(const EntryRows & entries, const float * direction, float * out) {
    HWY_DYNAMIC_DISPATCH(ProjectUnitEntries)(entries, direction, out);
}

void reduce_products(const EntryRows & entries, const PackedColumns & columns, Reduction reduction, float * out) {
    HWY_DYNAMIC_DISPATCH(ReduceProducts)(entries, columns, reduction, out);
}

void moments_of(const float * rows, int64_t stride, int64_t n, int d, float * scratch, float * mean, float * squares) {
    HWY_DYNAMIC_DISPATCH(Moments)
    (rows, static_cast<size_t>(stride), static_cast<size_t>(n), static_cast<size_t>(d), scratch, mean, squares);
}

}  // namespace pith
#endif
