// fit.h - how much haystack a token limit holds. Stage: benchmarks.
// Pure C++.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "pith/status.h"

namespace pith::benchmarks {

struct Fit {
    int n_units = -1;  // -1: not even `low` fits
    int n_tokens = 0;  // of n_units; of `low` when that does not fit
};

// The most units of [low, high] whose tokens are at most `limit`; tokens(n) grows with n, about evenly.
// What is returned was counted, so it holds the limit even where tokens(n) is uneven. A result within 1/256 of the limit is not
// improved on.   REQUIRES: low <= high.
// Cost:   it interpolates: three to five calls of `tokens` for even prices, never more than 10 + log2(high).
Fit most_that_fit(int low, int high, int limit, const std::function<int(int n_units)> & tokens);

// kBudget: "task 'vt' needs at least 700 tokens, and 512 are left to it"; who set the limit says by which option.
Status too_small(std::string_view task, int needs, int n_tokens);

}  // namespace pith::benchmarks
