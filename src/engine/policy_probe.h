// policy_probe.h - what a policy would keep of a session's cache, without evicting anything. Stage: engine.
//
// For inspection: the plans are those of Session::evict(), which applies them.
// Threads: one at a time, as the session.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/ragged.h"
#include "pith/budget.h"
#include "pith/session.h"
#include "policy/evidence/evidence.h"
#include "policy/policy.h"

namespace pith {

struct LiveSession;

// Of the lanes as they stand, [layer of the model]: layers with a window keep all that they have, and have no scores.
struct PolicyView {
    std::vector<Ragged<int32_t>> kept;  // [layer] of [K]: indices into the lane, ascending
    std::vector<Ragged<float>> scores;  // [layer] of [K]: after the refiner, one per entry of the lane
};

class PolicyProbe {
public:
    // cancel: as RunHooks::cancel, of all its calls.
    explicit PolicyProbe(Session & session, const std::atomic<bool> * cancel = nullptr);

    // REQUIRES, Errors: as Session::evict(). Cost: one gathering and two scorings of every layer.
    Result<PolicyView> view(const PolicyChoice & policy, const Budget & budget);
    // Errors: kMissingEvidence when neither the session's policy nor one it observes wants this.
    Result<LayerEvidence> evidence(int layer, const EvidenceNeeds & needs);

private:
    LiveSession & session_;
    const std::atomic<bool> * cancel_;
};

// Scores of one layer as allocators see them: the scorer's, after the refiner where there is one. net_budgets: what refiners
// that look at the budget are told (policy/eviction.h); empty: no limit.
Result<Ragged<float>> refined_scores(const Policy & policy, const LayerEvidence & evidence,
                                     std::span<const int64_t> net_budgets = {});

}  // namespace pith
