// reference.h - the whole eviction once more, slow and obvious, written from the papers' formulas (docs/policies.md).
// Every part has a formula (formulas.h): the matrix fails, and names the part, where there is none.
//
// Every stage is compared by itself: the formulas' scores with the policy's, then plans made from the policy's own scores.
// Rounding in one stage would else break ties in the next, and the comparison of plans would have to be a loose one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/eviction.h"
#include "policy/evidence/evidence.h"
#include "policy/variants.h"

namespace pith::test {

using Lanes = std::vector<std::vector<float>>;        // [K] or [H][entry]
using KeptLanes = std::vector<std::vector<int32_t>>;  // [n_lanes][kept index], layer-major

struct PolicyVariant {
    PartVariant scorer, refiner, allocator, selector;  // refiner: name empty where there is none
    std::string text() const;
};

// One layer's scores.
struct LayerScores {
    Lanes base;     // [K]
    Lanes heads;    // [H]; empty where the scorer has none
    Lanes refined;  // [K]; `base` where there is no refiner
};

struct Protected {
    bool too_small = false;                       // the budget cannot hold what is protected
    int64_t total = 0;                            // T
    std::vector<std::vector<bool>> is_protected;  // [n_lanes][entry]
};

// Which compositions are policies: `full` goes alone; what compares scores goes with no scorer that knows positions only.
bool is_allowed(std::string_view scorer, std::string_view refiner, std::string_view allocator, std::string_view selector);

// All errors: throw std::runtime_error naming the part that has no formula.
Protected reference_protection(const PartVariant & scorer, const EvictionTarget & target,
                               const std::vector<LayerEvidence> & layers);
// How far the policy's scores may be off, relative to the largest (finite) of the lane; 0 where the arithmetic is exact.
double score_tolerance(const PartVariant & scorer);
double refined_tolerance(const PartVariant & refiner);
Lanes reference_scores(const PartVariant & scorer, const LayerEvidence & evidence);
Lanes reference_head_scores(const PartVariant & scorer, const LayerEvidence & evidence);
// `heads` empty: the scorer has none.
Lanes reference_refine(const PartVariant & refiner, const LayerEvidence & evidence, const Lanes & base, const Lanes & heads,
                       const std::vector<int64_t> & net_budgets);

// REQUIRES: !reference_protection(…).too_small.
KeptLanes reference_eviction(const PolicyVariant & policy, const EvictionTarget & target,
                             const std::vector<LayerEvidence> & layers, const std::vector<LayerScores> & scores);

}  // namespace pith::test
