// lane_importance.h - head importances, measured beforehand, as one number per lane. Stage: allocate.
// Pure C++: no ggml, no I/O.
#pragma once

#include <vector>

#include "policy/allocate/allocator.h"
#include "policy/part/options.h"

namespace pith {

enum class ImportanceKind { kReason, kCopy, kBoth };

// The option every allocator that reads importances has.
inline constexpr OptionSpec kImportanceOption =
    word_option("by", "reason", "reason|copy|both", "the score of the calibration file that counts; both: the mean of the two");
ImportanceKind parse_importance(const Options & options);

// [n_lanes], layer-major: the mean over the lane's query heads, divided so that the sum over all lanes is 1. Both: the mean of
// the two so divided. Scores that are all 0, and a budget without importances, give every lane the same.
std::vector<double> lane_importance(const NetBudget & budget, ImportanceKind kind);

}  // namespace pith
