// step_plan.cpp - rows for those who waited longest.
#include "engine/batch/step_plan.h"

#include <algorithm>

namespace pith {

StepPlan plan_step(std::span<const StepCandidate> candidates, int max_rows) {
    StepPlan plan;
    std::vector<int> reading;
    for (int i = 0; i < static_cast<int>(candidates.size()); ++i) {
        const StepCandidate & one = candidates[static_cast<size_t>(i)];
        switch (one.kind) {
            case StepCandidate::Kind::kAnswers:
                plan.pieces.push_back({i, 1});
                break;
            case StepCandidate::Kind::kReadsChunks:
                reading.push_back(i);
                break;
            case StepCandidate::Kind::kReadsLayers:
                if (plan.layered < 0 || one.last_step < candidates[static_cast<size_t>(plan.layered)].last_step) {
                    plan.layered = i;
                }
                break;
        }
    }
    if (reading.empty()) { return plan; }

    std::ranges::stable_sort(reading, [&](int a, int b) {
        const StepCandidate & one = candidates[static_cast<size_t>(a)];
        const StepCandidate & other = candidates[static_cast<size_t>(b)];
        return one.last_step != other.last_step ? one.last_step < other.last_step : one.priority > other.priority;
    });
    const auto n_reading = static_cast<int64_t>(reading.size());
    const int64_t n_must = (n_reading + kMaxWait - 1) / kMaxWait;
    int64_t rows = std::max<int64_t>(max_rows - static_cast<int64_t>(plan.pieces.size()), n_must);
    for (int64_t k = 0; k < n_reading && rows > 0; ++k) {
        const int i = reading[static_cast<size_t>(k)];
        const int64_t n_others = std::max<int64_t>(n_must - k, 1);  // among which the rows that are left are shared
        const int64_t n = std::min(candidates[static_cast<size_t>(i)].n_left, (rows + n_others - 1) / n_others);
        plan.pieces.push_back({i, n});
        rows -= n;
    }
    return plan;
}

}  // namespace pith
