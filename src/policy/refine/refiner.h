// refiner.h - a refiner turns scores and value statistics into better scores. Stage: refine.
// Pure C++: no ggml, no I/O.
//
//   head_scores  f32 [H][lane length]   the scorer's scores per query head; null when the scorer has none
//   net_budgets  [K]                    what a lane keeps beside what is protected, where all keep as many; empty: no limit
//   scores       f32 [K][lane length]   in: the scorer's; out: refined, higher = keep
// Errors:  kMissingEvidence when the evidence lacks what needs() asks for.   Threads: immutable, const-safe.
#pragma once

#include <cstdint>
#include <span>

#include "core/ragged.h"
#include "pith/status.h"
#include "policy/evidence/evidence.h"
#include "policy/part/part.h"

namespace pith {

class Refiner {
public:
    virtual ~Refiner() = default;

    virtual EvidenceNeeds needs() const { return {}; }
    virtual bool wants_head_scores() const { return false; }
    virtual bool wants_budgets() const { return false; }
    virtual Status refine(const LayerEvidence & evidence, const Ragged<float> * head_scores,
                          std::span<const int64_t> net_budgets, Ragged<float> & scores) const = 0;
};

using RefinerInfo = PartInfo<Refiner>;

}  // namespace pith
