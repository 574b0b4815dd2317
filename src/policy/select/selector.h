// selector.h - a selector chooses, within each lane's share, the entries to keep. Stage: select.
// Pure C++: no ggml, no I/O.
//
// Protected entries are ranges the selector goes around and always keeps, never doctored scores.
// Threads: immutable, const-safe.
#pragma once

#include <cstdint>
#include <span>

#include "core/tasks.h"
#include "pith/status.h"
#include "policy/evidence/layer_view.h"
#include "policy/lane/lane_choice.h"
#include "policy/part/part.h"

namespace pith {

class Selector {
public:
    virtual ~Selector() = default;

    virtual EvidenceNeeds needs() const { return {}; }
    virtual bool wants_evidence() const { return false; }  // true: LayerView::evidence, base_scores and head_scores are set
    virtual bool compares_scores() const { return true; }  // true: a score must say how much an entry matters

    // shares [K]: how many candidates each lane keeps beside what is protected. Overwrites `choice`, the same however `run`
    // deals out its tasks.
    // REQUIRES: 0 ≤ shares[h] ≤ layer.net_length(h); scores finite.
    virtual Status select(const LayerView & layer, std::span<const int> shares, const RunTasks & run,
                          LayerChoice & choice) const = 0;
};

using SelectorInfo = PartInfo<Selector>;

}  // namespace pith
