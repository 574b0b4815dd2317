// allocator.h - an allocator weighs lanes; the eviction pass turns weights into entries (shares.h). Stage: allocate.
// Pure C++: no ggml, no I/O.
//
// The budget here is net: protected entries are taken off before and added back after.
// Threads: immutable, const-safe; what one eviction must remember from layer to layer goes into an AllocatorState.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/layer_view.h"
#include "core/part.h"
#include "core/shape.h"
#include "pith/status.h"

namespace pith {

struct NetBudget {
    CacheShape shape;
    int64_t total = 0;  // entries to divide among all lanes; in a cascade with the lanes to come as expected

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
    virtual std::unique_ptr<AllocatorState> begin() const { return nullptr; }

    // weights [n_lanes], layer-major: what to expect of each lane before its layer is seen (0: nothing until then).
    virtual void expect(const NetBudget & budget, std::span<double> weights) const = 0;

    // Called once per layer, in order: sets the weights of this layer's lanes, and may revise any other. Weights are ≥ 0.
    virtual Status weigh(const LayerView & layer, const NetBudget & budget, AllocatorState * state,
                         std::span<double> weights) const = 0;
};

using AllocatorInfo = PartInfo<Allocator>;

}  // namespace pith
