// scheduled_graph.h - one graph over devices and the CPU, by ggml's scheduler: cut where the next operation's weights lie
// elsewhere, with copies of what crosses. Stage: device.
//
// For what no single device has all of (device_graph.h): also tokens with an adapter, with gates that rank, or of models with
// per-layer rows of tokens, wherever their layers are. An operation runs where its weights are, others beside those they go
// with. On the CPU, whatever a device says of itself, run Pith's own operations, attention, and what reads or writes this
// machine's memory other than weights: lanes above all. What a device refuses runs elsewhere, and is told by name
// (unsupported_ops.h).
// Errors: kOutOfMemory.   Cost: a scheduler for each graph, since its plan of memory is this graph's alone (graph_runner.h);
// another run costs what crosses.   REQUIRES: all but needs_devices() inside on_devices().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/sent_graphs.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

// Whether an operation reads what lies on a device.
bool needs_devices(ggml_cgraph * graph);

class ScheduledGraph {
public:
    ScheduledGraph() = default;
    ~ScheduledGraph();  // inside or outside of on_devices()
    ScheduledGraph(const ScheduledGraph &) = delete;
    ScheduledGraph & operator=(const ScheduledGraph &) = delete;

    bool planned() const { return sched_ != nullptr; }
    // Gives all tensors of the graph memory. cpu: the back end that takes what devices do not. Replaces the plan there was.
    Status plan(ggml_cgraph * graph, std::span<const ggml_backend_t> devices, ggml_backend_t cpu);
    ggml_status compute(ggml_cgraph * graph);
    bool may_run_again() const { return epoch_ == sent_graphs_epoch(); }
    // Lets go of the plan, inside or outside of on_devices().
    void clear();

    size_t cpu_bytes() const { return cpu_bytes_; }  // that the plan takes of this machine's memory
    size_t device_bytes(size_t device) const { return device < device_bytes_.size() ? device_bytes_[device] : 0; }
    int n_pieces() const { return sched_ == nullptr ? 0 : ggml_backend_sched_get_n_splits(sched_); }  // each runs in one place

private:
    ggml_backend_sched_t sched_ = nullptr;
    size_t cpu_bytes_ = 0;
    std::vector<size_t> device_bytes_;  // in the order of plan()'s devices
    uint64_t epoch_ = 0;                // of what servers have, since the plan
};

}  // namespace pith
