// cpu_kernels.cpp - the kernels, compiled once per instruction set, and the choice among them at run time.
#include "attention/cpu/cpu_kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "device/avx_vnni.h"
#include "device/cpu_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/cpu/cpu_kernels.cpp"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h first.
#include "attention/cpu/cpu_columns-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pith::HWY_NAMESPACE {

void RunUnits(const AttentionTask & task, const UnitsInRun & in_run, float * partial, double * numbers, float * scratch) {
    const AttentionUnit & unit = in_run.unit();
    if (has_few_rows(task)) { return DotUnits(task, in_run, partial, scratch); }
    WithProducts(task, [&](auto kind) HWY_ATTR {
        using Products = typename decltype(kind)::type;
        if (has_strands(task)) {
            ColumnUnit<Products>(task, unit, partial_of(unit, partial), numbers + unit.numbers, scratch);
        } else {
            TileUnit<Products>(task, unit, partial_of(unit, partial), scratch);
        }
    });
}

bool MultipliesWords(KvFormat k_format, KvFormat v_format, int head_dim) {
    return RoundsToWords(k_format, v_format, head_dim);
}

int64_t ThisTarget() {
    return HWY_TARGET;
}

}  // namespace pith::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pith {

HWY_EXPORT(RunUnits);
HWY_EXPORT(MultipliesWords);
HWY_EXPORT(ThisTarget);

void run_units(const AttentionTask & task, const UnitsInRun & in_run, float * partial, double * numbers, float * scratch) {
    HWY_DYNAMIC_DISPATCH(RunUnits)(task, in_run, partial, numbers, scratch);
}

size_t scratch_floats(const AttentionTask & task, int longest, int span) {
    const auto dims = static_cast<size_t>(task.head_dim + task.head_dim_v);
    if (has_strands(task)) {
        const size_t n_blocks = static_cast<size_t>(longest + kEntryBlock - 1) / kEntryBlock;
        const size_t n_kept = task.columns.group_squares.empty() ? 1 : 2;
        const size_t n_parts = longest > span ? static_cast<size_t>((longest + span - 1) / span) : 1;
        return product_floats(task, kWidestPanel) + 9 * kWidestPanel + n_blocks * kWidestPanel * (n_kept * kEntryBlock + 1) +
               n_parts * kWidestPanel * (static_cast<size_t>(task.head_dim_v) + 4);
    }
    if (has_few_rows(task)) {
        const auto head_dim = static_cast<size_t>(task.head_dim);
        // The rows as whole numbers: two bytes, two of a block.
        return kMaxDotRows * (dims + kEntryBlock + head_dim / 2 + head_dim / 16);
    }
    return product_floats(task, kTileRows) + kTileRows * static_cast<size_t>(task.head_dim_v) + kEntryBlock * kWidestPanel +
           5 * kTileRows;
}

namespace {

constexpr const char * kAvx2Vnni = "AVX2_VNNI";  // which Highway has no name for

// The sets' names, best first, and what Highway knows each as.
std::vector<std::pair<const char *, int64_t>> targets() {
    std::vector<std::pair<const char *, int64_t>> all;
    hwy::SetSupportedTargetsForTest(0);
    allow_avx_vnni(true);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        if (target == HWY_AVX2 && has_avx_vnni()) { all.emplace_back(kAvx2Vnni, target); }
        all.emplace_back(hwy::TargetName(target), target);
    }
    return all;
}

}  // namespace

const char * cpu_attention_target() {
    const int64_t target = HWY_DYNAMIC_DISPATCH(ThisTarget)();
    return target == HWY_AVX2 && has_avx_vnni() ? kAvx2Vnni : hwy::TargetName(target);
}

bool cpu_attention_multiplies_words(KvFormat k_format, KvFormat v_format, int head_dim) {
    return HWY_DYNAMIC_DISPATCH(MultipliesWords)(k_format, v_format, head_dim);
}

bool cpu_attention_pays() {
    // Better sets have smaller numbers; all that are compiled on other processors than x86 have fused multiply-adds.
    return HWY_ARCH_X86 == 0 || HWY_DYNAMIC_DISPATCH(ThisTarget)() <= HWY_AVX2;
}

std::vector<const char *> cpu_attention_targets() {
    std::vector<const char *> names;
    for (const auto & [name, target] : targets()) { names.push_back(name); }
    return names;
}

bool use_cpu_attention_target(const char * wanted) {
    for (const auto & [name, target] : targets()) {  // all of them may be used behind this
        if (wanted == nullptr || std::strcmp(wanted, name) != 0) { continue; }
        hwy::SetSupportedTargetsForTest(target);
        allow_avx_vnni(std::strcmp(name, kAvx2Vnni) == 0);
        return true;
    }
    return wanted == nullptr;
}

}  // namespace pith
#endif
