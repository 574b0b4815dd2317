// attention_scorer.cpp - reduces per-query-head scores to one per KV head.
#include "policy/score/attention_scorer.h"

#include <algorithm>
#include <vector>

namespace pith {

GroupReduction parse_group(const Options & options) {
    if (options.is("group", "max")) { return GroupReduction::kMax; }
    return options.is("group", "sum") ? GroupReduction::kSum : GroupReduction::kMean;
}

Ragged<float> make_lane_scores(const LayerEvidence & evidence) {
    std::vector<int> lengths;
    for (int h = 0; h < evidence.n_kv_heads; ++h) { lengths.push_back(evidence.length(h)); }
    return Ragged<float>(lengths);
}

Status AttentionScorer::score(const LayerEvidence & evidence, Ragged<float> & scores) const {
    PITH_RETURN_IF_ERROR(check(evidence));
    reduce_heads(
        evidence, [&](int head, std::span<float> out) { score_head(evidence, head, out); }, scores);
    return {};
}

void AttentionScorer::reduce_heads(const LayerEvidence & evidence, const OneHead & one_head, Ragged<float> & scores) const {
    scores = make_lane_scores(evidence);
    std::vector<float> one;
    for (int h = 0; h < evidence.n_kv_heads; ++h) {
        const std::span<float> out = scores.row(h);
        one.resize(out.size());
        for (int g = 0; g < evidence.n_group; ++g) {
            const int head = h * evidence.n_group + g;
            if (g == 0) {
                one_head(head, out);
                continue;
            }
            one_head(head, one);
            if (group_ == GroupReduction::kMax) {
                for (size_t j = 0; j < out.size(); ++j) { out[j] = std::max(out[j], one[j]); }
            } else {
                for (size_t j = 0; j < out.size(); ++j) { out[j] += one[j]; }
            }
        }
        if (group_ == GroupReduction::kMean && evidence.n_group > 1) {
            const auto n = static_cast<float>(evidence.n_group);
            for (float & x : out) { x /= n; }
        }
    }
}

Status AttentionScorer::score_heads(const LayerEvidence & evidence, Ragged<float> & scores) const {
    PITH_RETURN_IF_ERROR(check(evidence));
    std::vector<int> lengths;
    for (int r = 0; r < evidence.n_kv_heads * evidence.n_group; ++r) {
        lengths.push_back(evidence.length(r / evidence.n_group));
    }
    scores = Ragged<float>(lengths);
    for (int r = 0; r < scores.n_rows(); ++r) { score_head(evidence, r, scores.row(r)); }
    return {};
}

}  // namespace pith
