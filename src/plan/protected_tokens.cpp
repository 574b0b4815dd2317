// protected_tokens.cpp - spans counted once each, and the budget that holds them.
#include "plan/protected_tokens.h"

#include <algorithm>

namespace pith {

int64_t n_covered(std::vector<PositionSpan> spans, int64_t end) {
    std::ranges::sort(spans, {}, &PositionSpan::begin);
    int64_t n = 0;
    int64_t covered = 0;
    for (const PositionSpan & span : spans) {
        const int64_t to = std::min<int64_t>(span.end, end);
        n += std::max<int64_t>(0, to - std::max<int64_t>(covered, span.begin));
        covered = std::max(covered, to);
    }
    return n;
}

int64_t n_protected(const Policy & policy, const std::vector<PositionSpan> & pinned, int64_t budget, int64_t n_tokens) {
    std::vector<PositionSpan> spans = pinned;
    spans.push_back({0, policy.n_sinks()});
    spans.push_back(
        {static_cast<int32_t>(std::max<int64_t>(0, n_tokens - policy.n_recent(budget))), static_cast<int32_t>(n_tokens)});
    return n_covered(std::move(spans), n_tokens);
}

std::optional<int64_t> least_budget(const Policy & policy, const std::vector<PositionSpan> & pinned, int64_t n_tokens) {
    constexpr int kSteps = 64;  // shares come nearer by a constant factor each
    int64_t least = 1;
    for (int step = 0; step < kSteps; ++step) {
        const int64_t wanted = n_protected(policy, pinned, least, n_tokens);
        if (wanted <= least) { return least; }
        least = wanted;
    }
    return std::nullopt;
}

}  // namespace pith
