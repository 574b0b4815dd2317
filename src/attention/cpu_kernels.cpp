// cpu_kernels.cpp - the kernels, compiled once per instruction set, and the choice among them at run time.
#include "attention/cpu_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

// GCC 12 warns of uninitialised values inside its own AVX-512 headers.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

// Left out: sets that differ from their neighbours in nothing used here, and vectors without a fixed length.
#define HWY_DISABLED_TARGETS \
    (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR | HWY_AVX10_2 | HWY_ALL_SVE | HWY_RVV | HWY_SCALAR)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/cpu_kernels.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "attention/cpu_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

void RunUnit(const AttentionTask & task, const AttentionUnit & unit, float * partial, float * scratch) {
    if (task.n_rows() <= kMaxDotRows) {
        DotUnit(task, unit, partial, scratch);
    } else {
        TileUnit(task, unit, partial, scratch);
    }
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith {

HWY_EXPORT(RunUnit);

void run_unit(const AttentionTask & task, const AttentionUnit & unit, float * partial, float * scratch) {
    HWY_DYNAMIC_DISPATCH(RunUnit)(task, unit, partial, scratch);
}

size_t scratch_floats(const AttentionTask & task) {
    const auto n_rows = static_cast<size_t>(task.n_rows());
    const auto dims = static_cast<size_t>(task.head_dim + task.head_dim_v);
    if (n_rows <= kMaxDotRows) { return n_rows * (dims + kEntryBlock); }
    constexpr size_t kWidestPanel = 48;
    return (kTileRows + kEntryBlock) * dims + kEntryBlock * kWidestPanel + 4 * kTileRows;
}

std::vector<const char *> cpu_attention_targets() {
    std::vector<const char *> names;
    hwy::SetSupportedTargetsForTest(0);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) { names.push_back(hwy::TargetName(target)); }
    return names;
}

bool use_cpu_attention_target(const char * name) {
    hwy::SetSupportedTargetsForTest(0);
    if (name == nullptr) { return true; }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        if (std::strcmp(name, hwy::TargetName(target)) != 0) { continue; }
        hwy::SetSupportedTargetsForTest(target);
        return true;
    }
    return false;
}

}  // namespace pith
#endif
