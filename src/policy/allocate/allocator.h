// allocator.h - an allocator weighs lanes; the eviction pass turns weights into entries (shares.h). Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// The budget here is net: protected entries are taken off before and added back after.
// Threads: immutable, const-safe; what one eviction must remember from layer to layer goes into an AllocatorState.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/shape.h"
#include "pith/head_importance.h"
#include "pith/status.h"
#include "policy/evidence/layer_view.h"
#include "policy/part/part.h"

namespace pith {

struct NetBudget {
    CacheShape shape;
    int64_t total = 0;  // entries to divide among all lanes; in a cascade with the lanes to come as expected
    const HeadImportance * importance = nullptr;  // for allocators whose wants_importance() says so
    // [n_lanes], layer-major, as the lanes stand now; of lanes to come as expected.
    std::span<const int> net_lengths{};  // candidates
    std::span<const int> n_protected{};
    // true: a layer is cut to its share before the next one comes. false: all layers are there before the first is weighed, and
    // nothing is cut before the last one is.
    bool cascade = false;

    double mean() const { return static_cast<double>(total) / shape.n_lanes(); }  // B, net
};

// One eviction's memory of earlier layers; allocators that need none have none.
class AllocatorState {
public:
    virtual ~AllocatorState() = default;
};

class Allocator {
public:
    virtual ~Allocator() = default;

    virtual EvidenceNeeds needs() const { return {}; }
    virtual bool wants_evidence() const { return false; }  // true: LayerView::evidence is set in weigh()
    // true: NetBudget::importance is set, with a value per query head of the model.
    virtual bool wants_importance() const { return false; }
    // true: scores of different lanes are compared, so that a score must say how much an entry matters.
    virtual bool compares_scores() const { return false; }
    // true: scores of different layers' entries are, too.
    virtual bool ranks_across_layers() const { return false; }
    // true: nothing may be decided before every layer has been seen (a one-shot prefill then holds the whole cache).
    virtual bool wants_all_layers() const { return false; }
    // true: what is kept is the sum of the weights, which count entries, and the budget's total is a ceiling. Only for scores
    // that are absolute (scorer.h).
    virtual bool keeps_less() const { return false; }
    // With so many entries a lane or fewer, on average, all lanes are treated alike and nothing of the allocator is left
    // (retrieval: no head keeps everything).
    virtual int64_t n_alike() const { return 0; }
    virtual std::unique_ptr<AllocatorState> begin() const { return nullptr; }

    // weights [n_lanes], layer-major: what to expect of each lane before its layer is seen (0: nothing until then).
    virtual void expect(const NetBudget & budget, std::span<double> weights) const = 0;

    // Called once per layer, in order: sets the weights of this layer's lanes, and may revise any other. Weights are ≥ 0.
    virtual Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                         std::span<double> weights) const = 0;
};

using AllocatorInfo = PartInfo<Allocator>;

}  // namespace pith
