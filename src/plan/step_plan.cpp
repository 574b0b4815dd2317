// step_plan.cpp - rows for those who waited longest, and for those who matter most.
#include "plan/step_plan.h"

#include <algorithm>
#include <utility>

namespace pith {
namespace {

using Candidates = std::span<const StepCandidate>;

const StepCandidate & at(Candidates candidates, int i) {
    return candidates[static_cast<size_t>(i)];
}

void sort_by_age(Candidates candidates, std::vector<int> & which) {
    std::ranges::stable_sort(which, [&](int a, int b) {
        const StepCandidate & one = at(candidates, a);
        const StepCandidate & other = at(candidates, b);
        return one.last_step != other.last_step ? one.last_step < other.last_step : one.priority > other.priority;
    });
}

// The highest priority, of equals the oldest, unless one of the others, in their turns behind it, would then come too late: the
// oldest comes first then.
int choose_layered(Candidates candidates, std::vector<int> layered, int64_t step) {
    if (layered.empty()) { return -1; }
    sort_by_age(candidates, layered);
    int chosen = layered.front();
    for (const int i : layered) {
        if (at(candidates, i).priority > at(candidates, chosen).priority) { chosen = i; }
    }
    int64_t turn = step;
    for (const int i : layered) {
        if (i != chosen && at(candidates, i).last_step + kMaxWait < ++turn) { return layered.front(); }
    }
    return chosen;
}

// Those that must advance, a quarter, have a row each. What is left goes by priority, and among equals is shared by those that
// must, before others have any.
void share_rows(Candidates candidates, std::vector<int> reading, int64_t rows, std::vector<StepPiece> & pieces) {
    const auto n_reading = static_cast<int64_t>(reading.size());
    const int64_t n_must = (n_reading + kMaxWait - 1) / kMaxWait;
    rows = std::max(rows, n_must);
    sort_by_age(candidates, reading);
    std::vector<bool> must(candidates.size());
    for (int64_t k = 0; k < n_must; ++k) { must[static_cast<size_t>(reading[static_cast<size_t>(k)])] = true; }
    std::ranges::stable_sort(reading, [&](int a, int b) { return at(candidates, a).priority > at(candidates, b).priority; });
    const auto is_must = [&](int i) { return static_cast<bool>(must[static_cast<size_t>(i)]); };
    const auto n_must_of = [&](int priority) {
        return std::ranges::count_if(reading, [&](int i) { return is_must(i) && at(candidates, i).priority == priority; });
    };

    int64_t n_later = n_must;  // rows of those that must advance, of lower priority
    int64_t n_equal = 0;       // that must, of the priority at hand, and have none yet
    for (size_t k = 0; k < reading.size(); ++k) {
        const StepCandidate & one = at(candidates, reading[k]);
        if (k == 0 || one.priority != at(candidates, reading[k - 1]).priority) {
            n_equal = n_must_of(one.priority);
            n_later -= n_equal;
        }
        const int64_t n_others = std::max<int64_t>(n_equal, 1);  // among which the rows that are left are shared
        const int64_t n = std::min(one.n_left, (rows - n_later + n_others - 1) / n_others);
        if (n > 0) { pieces.push_back({reading[k], n}); }
        rows -= n;
        n_equal -= is_must(reading[k]) ? 1 : 0;
    }
}

}  // namespace

StepPlan plan_step(Candidates candidates, int max_rows, int64_t step) {
    StepPlan plan;
    std::vector<int> reading;
    std::vector<int> layered;
    for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
        switch (at(candidates, i).kind) {
            case StepCandidate::Kind::kAnswers:
                plan.pieces.push_back({i, 1});
                break;
            case StepCandidate::Kind::kReadsChunks:
                reading.push_back(i);
                break;
            case StepCandidate::Kind::kReadsLayers:
                layered.push_back(i);
                break;
        }
    }
    plan.layered = choose_layered(candidates, std::move(layered), step);
    share_rows(candidates, std::move(reading), max_rows - std::ssize(plan.pieces), plan.pieces);
    return plan;
}

}  // namespace pith
