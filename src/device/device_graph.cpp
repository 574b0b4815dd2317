// device_graph.cpp - what goes in and comes out beside each other, and ggml's allocator for the rest.
#include "device/device_graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/items.h"
#include "device/device_work.h"
#include "device/sent_graphs.h"

namespace pith {
namespace {

constexpr size_t kAlignment = 64;  // at least: of a line of a cache, and of whatever type an input has
// Graphs of different sizes follow each other (the last chunk of a layer is short), and memory that goes and comes with each
// would cost more than it is worth.
constexpr int kPlansBetweenLooks = 64;
constexpr size_t kWorthShrinking = size_t{16} << 20U;

// What is a view's memory in the end.
ggml_tensor * root_of(ggml_tensor * tensor) {
    return tensor->view_src != nullptr ? tensor->view_src : tensor;
}

std::unordered_set<const ggml_tensor *> read_by(ggml_cgraph * graph) {
    std::unordered_set<const ggml_tensor *> all;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        all.insert(node);
        all.insert(std::begin(node->src), std::end(node->src));
    }
    return all;
}

// Without memory for them, it holds nothing.
void hold_bytes(ggml_gallocr_t allocator, size_t n_bytes) {
    const std::unique_ptr<ggml_context, void (*)(ggml_context *)> context(
        ggml_init({ggml_tensor_overhead() + ggml_graph_overhead_custom(1, false), nullptr, true}), ggml_free);
    if (!context) { return; }
    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), 1, false);
    ggml_build_forward_expand(graph, ggml_new_tensor_1d(context.get(), GGML_TYPE_I8, static_cast<int64_t>(n_bytes)));
    static_cast<void>(ggml_gallocr_reserve(allocator, graph));
}

}  // namespace

DeviceGraph::~DeviceGraph() {
    release();
}

void DeviceGraph::release() {
    sent_.release();
    read_.release();
    if (gallocr_ == nullptr && ends_ == nullptr) { return; }
    give_back([&] { free_memory(); });
}

// Each is let go of first: what is freed while the device fails must not be freed again.
void DeviceGraph::free_memory() {
    ggml_gallocr_free(std::exchange(gallocr_, nullptr));
    free_ends();
}

void DeviceGraph::free_ends() {
    if (ends_ != nullptr) { ggml_backend_buffer_free(std::exchange(ends_, nullptr)->buffer); }
}

size_t DeviceGraph::device_bytes() const {
    return (gallocr_ != nullptr ? ggml_gallocr_get_buffer_size(gallocr_, 0) : 0) + (ends_ != nullptr ? ggml_nbytes(ends_) : 0);
}

// Of all that has no memory yet; 0: not known.
size_t DeviceGraph::size_of(ggml_cgraph * graph) const {
    const std::unique_ptr<ggml_gallocr, void (*)(ggml_gallocr_t)> measuring(
        ggml_gallocr_new(ggml_backend_get_default_buffer_type(device_)), ggml_gallocr_free);
    size_t n_all = 0;
    if (measuring) { ggml_gallocr_reserve_n_size(measuring.get(), graph, nullptr, nullptr, &n_all); }
    return n_all;
}

void DeviceGraph::shrink_to(ggml_cgraph * graph, size_t n_beside) {
    if (++n_plans_ % kPlansBetweenLooks != 0 || device_bytes() < kWorthShrinking) { return; }
    const size_t n_all = size_of(graph);  // inputs and outputs count twice
    if (n_all == 0 || device_bytes() / 2 <= n_beside + n_all) { return; }
    forget_sent_graphs();
    free_memory();
}

// Where the device throws, ggml's allocator has freed a buffer that it still points to: then it is lost, and never used again.
bool DeviceGraph::allocate(ggml_cgraph * graph, size_t growth) {
    struct Moving {
        bool stayed = false;
        ~Moving() {
            if (!stayed) { forget_sent_graphs(); }
        }
    } moving;
    const ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(device_);
    ggml_gallocr_t allocator = std::exchange(gallocr_, nullptr);
    const size_t before = allocator != nullptr ? ggml_gallocr_get_buffer_size(allocator, 0) : 0;
    if (allocator == nullptr) { allocator = ggml_gallocr_new(type); }
    if (allocator == nullptr) { return false; }
    if (growth > 0) {
        const size_t needed = size_of(graph);
        // In one piece: what is divided into several is divided otherwise for each graph.
        if (needed > before && needed + growth <= ggml_backend_buft_get_max_size(type)) {
            hold_bytes(allocator, needed + growth);
        }
    }
    if (!ggml_gallocr_reserve(allocator, graph) || !ggml_gallocr_alloc_graph(allocator, graph)) {
        ggml_gallocr_free(allocator);
        return false;
    }
    gallocr_ = allocator;
    const size_t now = ggml_gallocr_get_buffer_size(allocator, 0);
    // It frees its buffer for a larger one alone, unless it is several, of which one can grow as another shrinks.
    moving.stayed = now == before && now <= ggml_backend_buft_get_max_size(type);
    return true;
}

bool DeviceGraph::can_run(ggml_cgraph * graph) const {
    const auto is_elsewhere = [&](const ggml_tensor * tensor) {
        const ggml_backend_buffer_t buffer = tensor == nullptr ? nullptr : buffer_of(tensor);
        return buffer != nullptr && !ggml_backend_supports_buft(device_, ggml_backend_buffer_get_type(buffer));
    };
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        if (is_own_operation(node) || is_elsewhere(node) || std::ranges::any_of(node->src, is_elsewhere)) { return false; }
        if (!is_only_a_view(node) && !ggml_backend_supports_op(device_, node)) { return false; }
    }
    return true;
}

Status DeviceGraph::make_room(size_t n_bytes) {
    forget_sent_graphs();
    free_ends();
    context_.reset(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    if (!context_) { return {ErrorCode::kOutOfMemory, "no memory for a compute graph"}; }
    ggml_tensor * ends = ggml_new_tensor_1d(context_.get(), GGML_TYPE_I8, static_cast<int64_t>(n_bytes));
    if (ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), ggml_backend_get_default_buffer_type(device_)) == nullptr) {
        return {ErrorCode::kOutOfMemory, "no memory on a device"};
    }
    ends_ = ends;
    return {};
}

Status DeviceGraph::plan(ggml_cgraph * graph, std::span<const GraphInput> inputs, std::span<const GraphOutput> outputs,
                         const GraphGrowth & growth) {
    const ggml_backend_buffer_type_t type = ggml_backend_get_default_buffer_type(device_);
    const size_t alignment = std::max(kAlignment, ggml_backend_buft_get_alignment(type));
    struct Place {
        ggml_tensor * tensor;
        size_t at;
    };
    std::vector<Place> places;
    size_t end = 0;
    const auto place = [&](ggml_tensor * tensor) {
        places.push_back({tensor, end});
        end += (ggml_backend_buft_get_alloc_size(type, tensor) + alignment - 1) / alignment * alignment;
    };
    const auto read = read_by(graph);
    for (const GraphInput & input : inputs) {
        if (input.tensor != nullptr && read.contains(input.tensor)) { place(input.tensor); }
    }
    n_sent_ = end;
    for (const GraphOutput & output : outputs) {
        ggml_tensor * root = root_of(output.tensor);
        if (root->buffer == nullptr && std::ranges::find(places, root, &Place::tensor) == places.end()) { place(root); }
    }

    shrink_to(graph, end + growth.n_inputs + growth.n_between);
    const Status no_memory(ErrorCode::kOutOfMemory, std::string("no memory for the activations of a compute graph on ") +
                                                        ggml_backend_name(device_) + ": use a smaller " + item::kChunk +
                                                        ", or fewer layers on the device (" + item::kDeviceLayers + ", " +
                                                        item::kTensorSplit + ")");
    const bool has_room = ends_ != nullptr && ggml_nbytes(ends_) >= end;
    if (end > 0 && !has_room && !make_room(end + growth.n_inputs).ok() && !make_room(end).ok()) { return no_memory; }
    for (const Place & one : places) {
        if (ggml_backend_tensor_alloc(ends_->buffer, one.tensor, static_cast<uint8_t *>(ends_->data) + one.at) !=
            GGML_STATUS_SUCCESS) {
            return no_memory;
        }
    }
    sent_.resize(n_sent_);
    read_.resize(end - n_sent_);
    return allocate(graph, growth.n_between) ? Status() : no_memory;
}

void DeviceGraph::send(std::span<const GraphInput> inputs) {
    for (const GraphInput & input : inputs) {
        if (input.tensor == nullptr) {
            input.fill({});
        } else if (input.tensor->buffer != nullptr) {  // somebody reads it
            const std::span to(sent_.data() + place_of(input.tensor), ggml_nbytes(input.tensor));
            if (input.data != nullptr) {
                std::memcpy(to.data(), input.data, to.size());
            } else {
                input.fill(to);
            }
        }
    }
    if (n_sent_ > 0) { ggml_backend_tensor_set_async(device_, ends_, sent_.data(), 0, n_sent_); }
}

ggml_status DeviceGraph::compute(ggml_cgraph * graph) {
    graph_is_sent_by(device_);
    const ggml_status status = ggml_backend_graph_compute_async(device_, graph);
    if (status == GGML_STATUS_SUCCESS && !read_.empty()) {
        ggml_backend_tensor_get_async(device_, ends_, read_.data(), n_sent_, read_.size());
    }
    ggml_backend_synchronize(device_);
    return status;
}

void DeviceGraph::read(std::span<const GraphOutput> outputs) const {
    for (const GraphOutput & output : outputs) {
        ggml_tensor * tensor = output.tensor;
        const bool came = ends_ != nullptr && buffer_of(tensor) == ends_->buffer && place_of(tensor) >= n_sent_;
        for (size_t row = 0; row < output.n_rows(); ++row) {
            const size_t at = row * output.row_bytes;
            if (came) {
                std::memcpy(output.to(row), read_.data() + place_of(tensor) - n_sent_ + at, output.row_bytes);
            } else {
                ggml_backend_tensor_get(tensor, output.to(row), at, output.row_bytes);
            }
        }
    }
}

size_t DeviceGraph::place_of(const ggml_tensor * tensor) const {
    return static_cast<size_t>(static_cast<const uint8_t *>(tensor->data) - static_cast<const uint8_t *>(ends_->data));
}

}  // namespace pith
