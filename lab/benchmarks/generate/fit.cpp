// fit.cpp - see fit.h.
#include "benchmarks/generate/fit.h"

#include <algorithm>

#include "tasks/concat.h"

namespace pith::benchmarks {
namespace {

constexpr int kInterpolations = 8;

}  // namespace

Fit most_that_fit(int low, int high, int limit, const std::function<int(int)> & tokens) {
    Fit best{low, tokens(low)};
    if (best.n_tokens > limit) { return {-1, best.n_tokens}; }
    // What is near enough, and what to aim at: the middle of that range.
    const int enough = limit - limit / 256;
    const int aim = limit - limit / 512;
    // Brackets the answer: best fits; `over` does not, or is the first beyond the range.
    int over = high + 1;
    int over_tokens = 0;  // 0: not counted
    double per_unit =
        static_cast<double>(std::max(best.n_tokens, 1)) / std::max(low, 1);  // too many at first: the frame's are in it
    for (int n_tries = 1; over - best.n_units > 1 && best.n_tokens < enough; ++n_tries) {
        const int width = over - best.n_units;
        if (over_tokens > 0) { per_unit = static_cast<double>(over_tokens - best.n_tokens) / width; }
        const double step = per_unit > 0 ? (aim - best.n_tokens) / per_unit : width;
        // Where prices are too uneven to interpolate, halving is sure.
        const bool bisect = n_tries > kInterpolations;
        const int guess = best.n_units + (bisect ? width / 2 : static_cast<int>(std::min<double>(step, width)));
        const int n = std::clamp(guess, best.n_units + 1, over - 1);
        const int n_tokens = tokens(n);
        if (n_tokens <= limit) {
            per_unit = static_cast<double>(n_tokens - best.n_tokens) / (n - best.n_units);
            best = {n, n_tokens};
        } else {
            over = n;
            over_tokens = n_tokens;
        }
    }
    return best;
}

Status too_small(std::string_view task, int needs, int n_tokens) {
    return {ErrorCode::kBudget, corpus::concat({"task '", task, "' needs at least ", std::to_string(needs), " tokens, and ",
                                                std::to_string(n_tokens), " are left to it"})};
}

}  // namespace pith::benchmarks
