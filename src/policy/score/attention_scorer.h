// attention_scorer.h - base of scorers that score each query head by itself and then reduce the group. Stage: score.
// Pure C++: no ggml, no I/O.
//
// score[h,j] = reduce over g in group(h) of score_head(g)[j]; group order belongs to the scorer (max pooling and the mean do
// not commute), so whatever must happen before the reduction happens in score_head().
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "policy/score/scorer.h"

namespace pith {

enum class GroupReduction { kMean, kMax, kSum };

// The option every such scorer has.
constexpr OptionSpec group_option(std::string_view default_value) {
    return word_option("group", default_value, "mean|max|sum", "how query heads share a KV head's score");
}
inline constexpr OptionSpec kGroupOption = group_option("mean");
GroupReduction parse_group(const Options & options);

class AttentionScorer : public Scorer {
public:
    explicit AttentionScorer(GroupReduction group) : group_(group) {}

    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override;
    // Only where the heads' mean is the lane's score: what reads query heads by themselves would pass over any other reduction.
    bool has_head_scores() const override { return group_ == GroupReduction::kMean; }
    Status score_heads(const LayerEvidence & evidence, Ragged<float> & scores) const override;

protected:
    virtual Status check(const LayerEvidence & evidence) const = 0;
    // Overwrites `out` [lane length] with the scores of query head `head`. REQUIRES: check() passed.
    virtual void score_head(const LayerEvidence & evidence, int head, std::span<float> out) const = 0;

    // Overwrites `scores` [K] with the group's reduction of one_head(head, out).
    using OneHead = std::function<void(int head, std::span<float> out)>;
    void reduce_heads(const LayerEvidence & evidence, const OneHead & one_head, Ragged<float> & scores) const;

private:
    GroupReduction group_;
};

}  // namespace pith
