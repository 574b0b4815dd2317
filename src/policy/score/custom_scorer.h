// custom_scorer.h - a scorer whose function is the user's. Stage: score.
// Pure C++: no ggml, no I/O.
//
// Errors:  of the function, with the scorer's name in front; kNotFinite; kMissingEvidence.
// Threads: one call at a time: others wait.
#pragma once

#include <mutex>

#include "pith/custom_scorer.h"
#include "policy/score/scorer.h"

namespace pith {

class OwnScorer final : public Scorer {
public:
    // REQUIRES: the needs are in order.
    explicit OwnScorer(CustomScorer given) : given_(std::move(given)) {}

    const CustomScorer & given() const { return given_; }
    bool is_custom() const override { return true; }
    EvidenceNeeds needs() const override;
    int n_sinks() const override { return given_.n_sinks; }
    int n_recent(int64_t budget) const override;
    Status score(const LayerEvidence & evidence, Ragged<float> & scores) const override;

private:
    Status check(const LayerEvidence & evidence) const;
    Status call(const ScorerLayer & layer, std::span<float> scores) const;
    Status check_finite(const LayerEvidence & evidence, const Ragged<float> & scores) const;

    CustomScorer given_;
    mutable std::mutex one_call_;
};

}  // namespace pith
