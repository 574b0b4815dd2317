// policy_probe.cpp - plans that nobody applies.
#include "engine/policy_probe.h"

#include <numeric>
#include <utility>
#include <vector>

#include "engine/evict/evict.h"
#include "engine/evict/evict_as.h"
#include "policy/refine/refiner.h"
#include "policy/score/scorer.h"

namespace pith {
namespace {

Ragged<int32_t> all_of(const RaggedCache & cache, int layer) {
    Ragged<int32_t> all;
    std::vector<int32_t> row;
    for (int h = 0; h < cache.n_kv_heads(layer); ++h) {
        row.resize(static_cast<size_t>(cache.length(cache.lane(0, layer, h))));
        std::iota(row.begin(), row.end(), 0);
        all.push_row(row);
    }
    return all;
}

}  // namespace

Result<Ragged<float>> refined_scores(const Policy & policy, const LayerEvidence & evidence,
                                     std::span<const int64_t> net_budgets) {
    const Scorer & scorer = policy.scorer();
    Ragged<float> scores;
    PITH_RETURN_IF_ERROR(scorer.score(evidence, scores));
    if (const Refiner * refiner = policy.refiner()) {
        Ragged<float> heads;
        const bool has_heads = refiner->wants_head_scores() && scorer.has_head_scores();
        if (has_heads) { PITH_RETURN_IF_ERROR(scorer.score_heads(evidence, heads)); }
        PITH_RETURN_IF_ERROR(refiner->refine(evidence, has_heads ? &heads : nullptr, net_budgets, scores));
    }
    return scores;
}

PolicyProbe::PolicyProbe(Session & session, const std::atomic<bool> * cancel)
    : session_(live_session(session)), cancel_(cancel) {}

Result<PolicyView> PolicyProbe::view(const PolicyChoice & policy, const Budget & budget) {
    const CancelScope cancelling(*session_.forward, cancel_);
    PolicyTrial trial(session_);
    PITH_RETURN_IF_ERROR(trial.follow(policy, budget));
    PITH_ASSIGN_OR_RETURN(std::vector<LayerPlan> plans, plan_cascade(session_));
    PolicyView view;
    for (int layer = 0; layer < session_.n_layers(); ++layer) {
        view.kept.push_back(all_of(*session_.seq.cache, layer));
        if (!session_.layout.governs(layer)) {
            view.scores.emplace_back();
            continue;
        }
        PITH_ASSIGN_OR_RETURN(const LayerEvidence seen, gather_evidence(session_, layer));
        const Policy & followed = session_.seq.policy;
        const std::vector<int64_t> net = net_budgets(followed, eviction_target(session_), seen.positions);
        PITH_ASSIGN_OR_RETURN(Ragged<float> scores, refined_scores(followed, seen, net));
        view.scores.push_back(std::move(scores));
    }
    for (LayerPlan & plan : plans) { view.kept[static_cast<size_t>(plan.layer)] = std::move(plan.keep); }
    return view;
}

Result<LayerEvidence> PolicyProbe::evidence(int layer, const EvidenceNeeds & needs) {
    if (!session_.seq.cache) {
        return Status(ErrorCode::kInvalidArgument, "a session must be prefilled before it has evidence");
    }
    const CancelScope cancelling(*session_.forward, cancel_);
    PolicyTrial trial(session_);
    if (needs.reread_max) { PITH_RETURN_IF_ERROR(trial.read_again()); }
    return gather_evidence(session_, layer, needs);
}

}  // namespace pith
