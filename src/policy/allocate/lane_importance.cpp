// lane_importance.cpp - query heads' importances averaged over their lane.
#include "policy/allocate/lane_importance.h"

#include <numeric>
#include <span>

namespace pith {
namespace {

// Adds part · (the scores of each lane, divided so that their sum is 1).
void add_scores(const CacheShape & shape, std::span<const double> scores, double part, std::vector<double> & lanes) {
    std::vector<double> means(lanes.size(), 1.0);
    if (scores.size() == lanes.size() * static_cast<size_t>(shape.n_group)) {
        const auto n_group = static_cast<size_t>(shape.n_group);
        for (size_t lane = 0; lane < lanes.size(); ++lane) {
            const auto group = scores.subspan(lane * n_group, n_group);
            means[lane] = std::accumulate(group.begin(), group.end(), 0.0) / shape.n_group;
        }
    }
    double sum = std::accumulate(means.begin(), means.end(), 0.0);
    if (!(sum > 0)) {
        means.assign(means.size(), 1.0);
        sum = static_cast<double>(means.size());
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) { lanes[lane] += part * means[lane] / sum; }
}

}  // namespace

ImportanceKind parse_importance(const Options & options) {
    if (options.is("by", "copy")) { return ImportanceKind::kCopy; }
    return options.is("by", "both") ? ImportanceKind::kBoth : ImportanceKind::kReason;
}

std::vector<double> lane_importance(const NetBudget & budget, ImportanceKind kind) {
    static const HeadImportance kNone;
    const HeadImportance & importance = budget.importance != nullptr ? *budget.importance : kNone;
    std::vector<double> lanes(static_cast<size_t>(budget.shape.n_lanes()), 0.0);
    const double part = kind == ImportanceKind::kBoth ? 0.5 : 1.0;
    if (kind != ImportanceKind::kCopy) { add_scores(budget.shape, importance.reason, part, lanes); }
    if (kind != ImportanceKind::kReason) { add_scores(budget.shape, importance.copy, part, lanes); }
    return lanes;
}

}  // namespace pith
