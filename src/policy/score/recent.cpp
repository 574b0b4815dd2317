// recent.cpp - the option `recent`.
#include "policy/score/recent.h"

#include <algorithm>
#include <limits>

namespace pith {

RecentRule::RecentRule(const Options & options)
    : half_(options.is("recent", "half")), n_(static_cast<int>(options.integer("recent"))) {}

int RecentRule::count(int64_t budget) const {
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    return half_ ? static_cast<int>(std::min(budget / 2, kMost)) : n_;
}

}  // namespace pith
