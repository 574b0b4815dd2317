// eviction.h - one eviction: score → refine → allocate → select → plan, for all lanes of one sequence. Stage: all pure ones.
// Pure C++: no ggml, no I/O.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/ragged.h"
#include "core/shape.h"
#include "core/tasks.h"
#include "pith/head_importance.h"
#include "pith/status.h"
#include "policy/evidence/evidence.h"
#include "policy/policy.h"

namespace pith {

// The entries each lane of a layer keeps: indices into the lane as it stands when the plan is applied, ascending.
struct LayerPlan {
    int layer = 0;
    Ragged<int32_t> keep;  // [K]
};

struct EvictionTarget {
    CacheShape shape;
    int64_t budget = 0;                                // entries per lane on average, protected ones included
    std::vector<PositionSpan> pinned;                  // protected spans of original positions
    std::shared_ptr<const HeadImportance> importance;  // for policies whose wants_importance() says so
    RunTasks run_tasks = run_in_turn;                  // layers and lanes side by side; plans are the same whoever runs them
    const std::atomic<bool> * cancel = nullptr;        // looked at between layers, and between a selector's long steps
    int64_t most_of_lane = 0;                          // no lane keeps more, but for what is protected; 0: as it comes
};

// What each lane keeps beside what is protected in it, where all keep as many: what refiners that look at the budget are told.
std::vector<int64_t> net_budgets(const Policy & policy, const EvictionTarget & target, const Ragged<int32_t> & positions);

// One eviction. Two ways to use it:
//   all at once (chunks, decode):  add every layer's evidence, then finish() gives one plan for all layers;
//   cascade (layer-major prefill): after each add_layer(), cascade() gives plans for the layers so far (an earlier layer may
//     have to give entries back when a policy ranks across layers); apply them, then add the next layer; finish() rounds.
//     A policy that wants all layers first gives no plan before finish().
// The budget is exact after finish(): the sum over lanes is min(budget · n_lanes, entries there are, or may stay by
// EvictionTarget::most_of_lane); of a policy that keeps_less(), at most that.
// REQUIRES: layers are added in order 0, 1, …; evidence holds what policy.needs() asks for.
// Errors:   kMissingEvidence, kNotFinite (names layer, head, entry), kBudget (names budget and protected entries), kCancelled.
// Cost:     O(entries · log) a call.   Threads: one at a time; it uses those of EvictionTarget::run_tasks.
class EvictionPass {
public:
    // n_to_come: entries per lane that layers not yet added will bring (cascade; the prompt's length).
    EvictionPass(const Policy & policy, EvictionTarget target, bool cascade, int n_to_come);
    ~EvictionPass();
    EvictionPass(EvictionPass &&) noexcept;

    // Instead of EvictionTarget::cancel from now on.
    void set_cancel(const std::atomic<bool> * cancel);

    Status add_layer(const LayerEvidence & evidence);
    // Several of them, scored side by side. On an error the pass is of no more use.
    Status add_layers(std::span<const LayerEvidence> evidence);
    // Plans for layers that must shrink now. Indices count entries of the lane as left by the plans returned before.
    Result<std::vector<LayerPlan>> cascade();
    Result<std::vector<LayerPlan>> finish();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace pith
