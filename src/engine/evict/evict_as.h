// evict_as.h - evicts a full cache as a one-shot prefill under a policy would have: one prefill serves many policies. Stage:
// engine.
//
// In a layer-major prefill every query of the prompt attends to full lanes, whatever the policy, so hidden states and evidence
// are the same for all of them; only what is kept afterwards differs. The cascade is played over the full lanes, layer by
// layer; its plans are composed, and applied once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/pass/live_session.h"
#include "policy/auto_policy.h"
#include "policy/eviction.h"

namespace pith {

// All of Session::evict(), or, on an error or std::bad_alloc, nothing.
Status evict_as(LiveSession & session, const PolicyChoice & asked, const Budget & budget);

// Whether it can be the policy of a session that is prefilled, from now on.
Status check_follows(const LiveSession & session, const Policy & next);

// What a one-shot prefill of the tokens fed so far would have had.
struct NextPolicy {
    AutoChoice choice;
    RunPlan plan;
};
Result<NextPolicy> next_policy(const LiveSession & session, const PolicyChoice & asked, const Budget & budget);

// Another policy in force as long as this lives: then policy, budget and plan are as before, and the evidence that a second
// reading has added to.
class PolicyTrial {
public:
    explicit PolicyTrial(LiveSession & session);
    ~PolicyTrial();
    PolicyTrial(const PolicyTrial &) = delete;
    PolicyTrial & operator=(const PolicyTrial &) = delete;

    // Becomes the policy in force, and reads again where it wants that.
    Status follow(const PolicyChoice & asked, const Budget & budget);
    // What that adds to the evidence goes back with the rest. Copies of evidence share it.
    Status read_again();
    // It stays in force.
    void keep() { kept_ = true; }

private:
    LiveSession & session_;
    Policy policy_;
    PolicyChoice asked_;
    std::string reason_;
    Budget budget_;
    std::optional<RunPlan> plan_;
    std::optional<EvidenceState> evidence_;
    bool kept_ = false;
};

// The cascade of the policy in force over the lanes as they stand: at most one plan for each layer of the model.
Result<std::vector<LayerPlan>> plan_cascade(LiveSession & session);

}  // namespace pith
