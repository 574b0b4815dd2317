// recent.h - the option `recent`: how many of the newest entries are protected. Stage: score.
// Pure C++: no ggml, no I/O.
#pragma once

#include <cstdint>

#include "policy/part/options.h"

namespace pith {

// Decision: a recent window is protected by default for scorers that look at no window of their own (public code varies).
inline constexpr OptionSpec kRecentOption = integer_option(
    "recent", "32", 0, 1 << 24, "newest entries of each head that are protected; half: half of the budget", "half");

class RecentRule {
public:
    explicit RecentRule(const Options & options);
    int count(int64_t budget) const;

private:
    bool half_;
    int n_;
};

}  // namespace pith
