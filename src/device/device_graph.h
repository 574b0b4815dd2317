// device_graph.h - a graph of which one device runs every operation. Stage: device.
//
// Nothing is cut and nothing crosses in between. Inputs lie side by side in front of outputs, in a buffer of their own: a run
// sends all inputs at once, computes, reads all outputs at once, and waits once, however many there are. This buffer and the
// allocator's are kept from graph to graph and grow where one needs more; so graph after graph allocates nothing. What is held
// is looked at now and then, and allocated anew where it is large and more than twice what is needed. Errors: kOutOfMemory.
// REQUIRES: but where it is said, inside on_devices().   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/graph_ends.h"
#include "device/host_bytes.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

class DeviceGraph {
public:
    explicit DeviceGraph(ggml_backend_t device)
        : device_(device), sent_(HostBytes::near(device)), read_(HostBytes::near(device)) {}
    ~DeviceGraph();  // inside or outside of on_devices()
    DeviceGraph(const DeviceGraph &) = delete;
    DeviceGraph & operator=(const DeviceGraph &) = delete;

    // Whether the device has every operation of the graph, and all that these read and write and that has memory already.
    // Pith's own operations none has, whatever it says of itself.
    bool can_run(ggml_cgraph * graph) const;
    // Gives the memory back, inside or outside of on_devices(). The graph that was planned last must not be used any more.
    void release();
    // Gives all tensors of the graph memory, in place of those of the graph before it.
    // growth: of the graphs that follow; without memory for it, this one alone gets what it needs.
    Status plan(ggml_cgraph * graph, std::span<const GraphInput> inputs, std::span<const GraphOutput> outputs,
                const GraphGrowth & growth = {});
    // Of the graph that was planned last.
    void send(std::span<const GraphInput> inputs);
    ggml_status compute(ggml_cgraph * graph);
    void read(std::span<const GraphOutput> outputs) const;

    size_t device_bytes() const;  // that it holds there
    size_t cpu_bytes() const { return sent_.capacity() + read_.capacity(); }

private:
    Status make_room(size_t n_bytes);
    size_t size_of(ggml_cgraph * graph) const;
    void shrink_to(ggml_cgraph * graph, size_t n_beside);
    bool allocate(ggml_cgraph * graph, size_t growth);  // false: no memory
    void free_memory();
    void free_ends();
    size_t place_of(const ggml_tensor * tensor) const;  // in ends_

    ggml_backend_t device_;
    ggml_gallocr_t gallocr_ = nullptr;
    std::unique_ptr<ggml_context, void (*)(ggml_context *)> context_{nullptr, ggml_free};  // of ends_
    ggml_tensor * ends_ = nullptr;                                                         // i8: inputs, then outputs
    int64_t n_plans_ = 0;
    size_t n_sent_ = 0;  // bytes of it
    HostBytes sent_;
    HostBytes read_;
};

}  // namespace pith
