// layer_top.cpp - counts a layer's best candidates by lane.
#include "policy/allocate/layer_top.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "policy/lane/top.h"

namespace pith {
namespace {

// Of each lane those that are among its counts[h] best, or those that are not.
Candidates part_of(const Candidates & candidates, std::span<const int64_t> counts, bool best) {
    Candidates part;
    TopSelector top;
    std::vector<int32_t> chosen;
    std::vector<float> scores;
    std::vector<int32_t> positions;
    for (int h = 0; h < candidates.scores.n_rows(); ++h) {
        chosen.clear();
        scores.clear();
        positions.clear();
        const auto all_scores = candidates.scores.row(h);
        const auto all_positions = candidates.positions.row(h);
        top.candidates(all_scores, {}, static_cast<int>(counts[static_cast<size_t>(h)]), chosen);
        auto next = chosen.begin();
        for (size_t j = 0; j < all_scores.size(); ++j) {
            const bool is_chosen = next != chosen.end() && static_cast<size_t>(*next) == j;
            if (is_chosen) { ++next; }
            if (is_chosen != best) { continue; }
            scores.push_back(all_scores[j]);
            positions.push_back(all_positions[j]);
        }
        part.scores.push_row(scores);
        part.positions.push_row(positions);
    }
    return part;
}

}  // namespace

Candidates gather_candidates(const LayerView & layer) {
    Candidates candidates;
    std::vector<float> scores;
    std::vector<int32_t> positions;
    for (int h = 0; h < layer.n_lanes(); ++h) {
        scores.clear();
        positions.clear();
        const auto all_scores = layer.scores.row(h);
        const auto all_positions = layer.positions.row(h);
        for_each_candidate_run(layer.positions.length(h), layer.protected_ranges.row(h), [&](int begin, int end) {
            scores.insert(scores.end(), all_scores.begin() + begin, all_scores.begin() + end);
            positions.insert(positions.end(), all_positions.begin() + begin, all_positions.begin() + end);
        });
        candidates.scores.push_row(scores);
        candidates.positions.push_row(positions);
    }
    return candidates;
}

std::vector<int64_t> count_top(const Candidates & candidates, int64_t n) {
    std::vector<int64_t> counts(static_cast<size_t>(candidates.scores.n_rows()), 0);
    const auto flat = candidates.scores.flat();
    n = std::min<int64_t>(n, std::ssize(flat));
    if (n <= 0) { return counts; }
    std::vector<float> sorted(flat.begin(), flat.end());
    std::nth_element(sorted.begin(), sorted.begin() + (n - 1), sorted.end(), std::greater<>());
    const float threshold = sorted[static_cast<size_t>(n - 1)];

    std::vector<std::pair<int32_t, int>> ties;  // (-position, head): ascending order is the tie rule
    int64_t n_ties_in = n;
    for (int h = 0; h < candidates.scores.n_rows(); ++h) {
        const auto row = candidates.scores.row(h);
        const auto positions = candidates.positions.row(h);
        int64_t above = 0;
        for (size_t j = 0; j < row.size(); ++j) {
            if (row[j] > threshold) { ++above; }
            if (row[j] == threshold) { ties.emplace_back(-positions[j], h); }
        }
        counts[static_cast<size_t>(h)] = above;
        n_ties_in -= above;
    }
    std::nth_element(ties.begin(), ties.begin() + (n_ties_in - 1), ties.end());
    for (int64_t i = 0; i < n_ties_in; ++i) { ++counts[static_cast<size_t>(ties[static_cast<size_t>(i)].second)]; }
    return counts;
}

Candidates top_of(const Candidates & candidates, std::span<const int64_t> counts) {
    return part_of(candidates, counts, true);
}

Candidates rest_of(const Candidates & candidates, std::span<const int64_t> counts) {
    return part_of(candidates, counts, false);
}

}  // namespace pith
