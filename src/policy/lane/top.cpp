// top.cpp - the best entries of a lane, around what is protected.
#include "policy/lane/top.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace pith {

void TopSelector::candidates(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n,
                             std::vector<int32_t> & out) {
    choose(scores, protected_ranges, n, false, out);
}

void TopSelector::with_protected(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n,
                                 std::vector<int32_t> & out) {
    choose(scores, protected_ranges, n, true, out);
}

void TopSelector::choose(std::span<const float> scores, std::span<const IndexRange> protected_ranges, int n, bool add_protected,
                         std::vector<int32_t> & out) {
    const auto length = static_cast<int>(scores.size());
    scratch_.clear();
    for_each_candidate_run(length, protected_ranges, [&](int begin, int end) {
        scratch_.insert(scratch_.end(), scores.begin() + begin, scores.begin() + end);
    });
    n = std::min(n, static_cast<int>(scratch_.size()));

    // Everything above the threshold stays; of the entries that equal it, the oldest go.
    float threshold = std::numeric_limits<float>::infinity();
    std::ptrdiff_t n_ties_out = 0;
    if (n > 0) {
        std::nth_element(scratch_.begin(), scratch_.begin() + (n - 1), scratch_.end(), std::greater<>());
        threshold = scratch_[static_cast<size_t>(n - 1)];
        n_ties_out = std::count(scratch_.begin() + n, scratch_.end(), threshold);
    }
    int begin = 0;
    const auto take_candidates = [&](int end) {
        for (int j = begin; j < end; ++j) {
            const float score = scores[static_cast<size_t>(j)];
            if (score > threshold) { out.push_back(j); }
            if (score == threshold && n_ties_out-- <= 0) { out.push_back(j); }
        }
    };
    for (const IndexRange & range : protected_ranges) {
        take_candidates(range.begin);
        for (int j = range.begin; add_protected && j < range.end; ++j) { out.push_back(j); }
        begin = range.end;
    }
    take_candidates(length);
}

Status choose_top(const LayerView & layer, std::span<const int> shares, const RunTasks & run, LayerChoice & choice) {
    const auto choose = [&](int h, LaneChoice & lane) {
        const auto scores = layer.scores.row(h);
        TopSelector().with_protected(scores, layer.protected_ranges.row(h), shares[static_cast<size_t>(h)], lane.keep);
        for (const int32_t j : lane.keep) { lane.priority.push_back(scores[static_cast<size_t>(j)]); }
    };
    return choose_by_lane(layer.n_lanes(), run, choose, choice);
}

}  // namespace pith
