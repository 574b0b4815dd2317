// scheduled_graph.cpp - what must stay on the CPU is said, the rest is ggml's scheduler's.
#include "device/scheduled_graph.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>
#include <utility>

#include "core/items.h"
#include "device/device_work.h"
#include "device/sent_graphs.h"
#include "device/unsupported_ops.h"

namespace pith {
namespace {

std::atomic<uint64_t> graphs_epoch{0};
ggml_backend_t last_sender = nullptr;  // of turns at devices

// Memory of this machine that is no weight's: the cache's.
bool is_in_cache(const ggml_tensor * tensor) {
    const ggml_backend_buffer_t buffer = buffer_of(tensor);
    return buffer != nullptr && ggml_backend_buffer_is_host(buffer) &&
           ggml_backend_buffer_get_usage(buffer) != GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// Where something of this use is on a device that an operation reads or writes; null: it is here, or there is none.
ggml_backend_t place_of(const ggml_tensor * node, ggml_backend_buffer_usage use, std::span<const ggml_backend_t> devices) {
    const auto is_it = [use](const ggml_tensor * tensor) {
        const ggml_backend_buffer_t buffer = tensor == nullptr ? nullptr : buffer_of(tensor);
        return is_on_device(buffer) && ggml_backend_buffer_get_usage(buffer) == use;
    };
    const ggml_tensor * there = is_it(node) ? node : nullptr;
    for (const ggml_tensor * source : node->src) {
        if (there == nullptr && is_it(source)) { there = source; }
    }
    if (there == nullptr) { return nullptr; }
    const ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer_of(there));
    const auto found = std::ranges::find_if(devices, [&](ggml_backend_t one) { return ggml_backend_supports_buft(one, type); });
    return found == devices.end() ? nullptr : *found;
}
ggml_backend_t lanes_of(const ggml_tensor * node, std::span<const ggml_backend_t> devices) {
    return place_of(node, GGML_BACKEND_BUFFER_USAGE_ANY, devices);
}
ggml_backend_t weights_of(const ggml_tensor * node, std::span<const ggml_backend_t> devices) {
    return place_of(node, GGML_BACKEND_BUFFER_USAGE_WEIGHTS, devices);
}

bool stays_on_cpu(const ggml_tensor * node) {
    if (is_own_operation(node) || node->op == GGML_OP_FLASH_ATTN_EXT) { return true; }
    // Into a cache's type, rounded as without devices; what has crossed (gathered_reads.h).
    if (node->op == GGML_OP_CPY) { return true; }
    if (is_in_cache(node)) { return true; }
    for (const ggml_tensor * source : node->src) {
        if (source != nullptr && is_in_cache(source)) { return true; }
    }
    return false;
}

// A mask is made where it is read, from its first copy on.
void place_mask(ggml_backend_sched_t sched, const ggml_tensor * attention, ggml_backend_t at) {
    for (ggml_tensor * one = attention->src[3]; one != nullptr && one->op != GGML_OP_NONE; one = one->src[0]) {
        if (!is_only_a_view(one)) { ggml_backend_sched_set_tensor_backend(sched, one, at); }
    }
}

// All that the scheduler may come to look up.
size_t count_tensors(ggml_cgraph * graph) {
    std::unordered_set<const ggml_tensor *> seen;
    const auto see = [&](const ggml_tensor * tensor) {
        if (tensor == nullptr) { return; }
        seen.insert(tensor);
        if (tensor->view_src != nullptr) { seen.insert(tensor->view_src); }
    };
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        see(node);
        for (const ggml_tensor * source : node->src) { see(source); }
    }
    return seen.size();
}

}  // namespace

uint64_t sent_graphs_epoch() {
    return graphs_epoch;
}

void forget_sent_graphs() {
    ++graphs_epoch;
}

void graph_is_sent_by(ggml_backend_t device) {
    if (std::exchange(last_sender, device) != device) { forget_sent_graphs(); }
}

void graph_is_planned_by(ggml_backend_t device) {
    last_sender = device;
    forget_sent_graphs();
}

void give_back(const std::function<void()> & free) {
    static_cast<void>(on_devices([&]() -> Status {
        forget_sent_graphs();
        free();
        return {};
    }));
}

bool needs_devices(ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        for (const ggml_tensor * source : ggml_graph_node(graph, i)->src) {
            if (source != nullptr && is_on_device(source)) { return true; }
        }
    }
    return false;
}

ScheduledGraph::~ScheduledGraph() {
    clear();
}

void ScheduledGraph::clear() {
    if (sched_ == nullptr) { return; }
    ggml_backend_sched_t old = sched_;
    sched_ = nullptr;
    cpu_bytes_ = 0;
    device_bytes_.clear();
    give_back([&] { ggml_backend_sched_free(old); });
}

Status ScheduledGraph::plan(ggml_cgraph * graph, std::span<const ggml_backend_t> devices, ggml_backend_t cpu) {
    clear();
    graph_is_planned_by(devices.front());
    std::vector<ggml_backend_t> backends(devices.begin(), devices.end());
    backends.push_back(cpu);  // ggml's scheduler wants it to be the last
    sched_ = ggml_backend_sched_new(backends.data(), nullptr, static_cast<int>(backends.size()), count_tensors(graph) + 16,
                                    /*parallel=*/false, /*op_offload=*/false);
    const Status no_memory(ErrorCode::kOutOfMemory,
                           "no memory for the activations of a compute graph, here or on a device: use a smaller " +
                               item::kChunk + ", or fewer layers on the device (" + item::kDeviceLayers + ", " +
                               item::kTensorSplit + ")");
    if (sched_ == nullptr) { return no_memory; }
    UnsupportedOps unsupported;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (is_only_a_view(node)) { continue; }
        if (ggml_backend_t at_lanes = lanes_of(node, devices); at_lanes != nullptr) {
            // What it cannot do is left to the scheduler, which finds another, and is told.
            if (ggml_backend_supports_op(at_lanes, node)) { ggml_backend_sched_set_tensor_backend(sched_, node, at_lanes); }
            if (node->op == GGML_OP_FLASH_ATTN_EXT) { place_mask(sched_, node, at_lanes); }
            unsupported.expect(node, at_lanes);
        } else if (stays_on_cpu(node)) {
            ggml_backend_sched_set_tensor_backend(sched_, node, cpu);
        } else {
            unsupported.expect(node, weights_of(node, devices));
        }
    }
    if (!ggml_backend_sched_alloc_graph(sched_, graph)) {
        clear();
        return no_memory;
    }
    unsupported.tell(sched_, cpu);
    cpu_bytes_ = ggml_backend_sched_get_buffer_size(sched_, cpu);
    for (ggml_backend_t device : devices) { device_bytes_.push_back(ggml_backend_sched_get_buffer_size(sched_, device)); }
    epoch_ = sent_graphs_epoch();
    return {};
}

ggml_status ScheduledGraph::compute(ggml_cgraph * graph) {
    return ggml_backend_sched_graph_compute(sched_, graph);
}

}  // namespace pith
