// lane_device.cpp - see the header.
#include "device/lane_device.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <algorithm>
#include <vector>

#include "device/device_work.h"
#include "device/sent_graphs.h"

namespace pith {
namespace {

constexpr size_t kRowsAtOnce = 16384;  // of one operation: back ends bound the number of rows by that of their work groups

struct FreeContext {
    void operator()(ggml_context * context) const { ggml_free(context); }
};
struct FreeBuffer {
    // Of a device that has failed nothing can be given back.
    void operator()(ggml_backend_buffer_t buffer) const {
        static_cast<void>(on_devices([&]() -> Status {
            ggml_backend_buffer_free(buffer);
            return {};
        }));
    }
};

uint8_t * byte_at(const ggml_tensor * tensor, size_t offset) {
    return static_cast<uint8_t *>(tensor->data) + offset;
}

Status no_memory_to_copy(const std::string & name) {
    return {ErrorCode::kOutOfMemory, "no memory on " + name + " to move keys and values in"};
}

}  // namespace

Result<std::shared_ptr<LaneDevice>> LaneDevice::make(ggml_backend_dev_t device) {
    OwnedBackend backend;
    PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
        PITH_ASSIGN_OR_RETURN(ggml_backend_t made, make_device_backend(device));
        backend.reset(made);
        return {};
    }));
    return std::shared_ptr<LaneDevice>(new LaneDevice(device, ggml_backend_dev_name(device), std::move(backend)));
}

Result<size_t> LaneDevice::free_bytes() const {
    size_t n_free = 0;
    size_t n_all = 0;
    PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
        ggml_backend_dev_memory(handle_, &n_free, &n_all);
        return {};
    }));
    return n_free;
}

ggml_backend_buffer_t LaneDevice::allocate(ggml_context * tensors) {
    return ggml_backend_alloc_ctx_tensors_from_buft(tensors, ggml_backend_get_default_buffer_type(backend_.get()));
}

Status LaneDevice::copy_rows(std::span<const Copy> copies, std::span<const int32_t> indices) {
    if (indices.empty() || copies.empty()) { return {}; }
    forget_sent_graphs();  // this one takes the place of the last that was sent
    size_t n_tensors = 0;
    for (const Copy & one : copies) { n_tensors += 1 + 2 * ((one.n + kRowsAtOnce - 1) / kRowsAtOnce); }
    const std::unique_ptr<ggml_context, FreeContext> of_indices(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    const std::unique_ptr<ggml_context, FreeContext> context(
        ggml_init({n_tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_tensors, false), nullptr, true}));
    if (!of_indices || !context) { return no_memory_to_copy(name_); }
    ggml_tensor * all = ggml_new_tensor_1d(of_indices.get(), GGML_TYPE_I32, static_cast<int64_t>(indices.size()));
    const std::unique_ptr<ggml_backend_buffer, FreeBuffer> buffer(
        ggml_backend_alloc_ctx_tensors_from_buft(of_indices.get(), ggml_backend_get_default_buffer_type(backend_.get())));
    if (!buffer) { return no_memory_to_copy(name_); }
    ggml_backend_tensor_set(all, indices.data(), 0, indices.size_bytes());

    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), n_tensors, false);
    bool placed = true;
    const auto place = [&](ggml_backend_buffer_t in, ggml_tensor * tensor, uint8_t * data) {
        placed = placed && ggml_backend_tensor_alloc(in, tensor, data) == GGML_STATUS_SUCCESS;
        return tensor;
    };
    for (const Copy & one : copies) {
        const size_t row = one.from->nb[1];
        const auto width = static_cast<int64_t>(row / sizeof(int32_t));
        ggml_tensor * from = place(one.from->buffer, ggml_new_tensor_2d(context.get(), GGML_TYPE_I32, width, one.from->ne[1]),
                                   byte_at(one.from, 0));
        for (size_t first = one.first; first < one.first + one.n; first += kRowsAtOnce) {
            const size_t n = std::min(kRowsAtOnce, one.first + one.n - first);
            ggml_tensor * slice = place(buffer.get(), ggml_new_tensor_1d(context.get(), GGML_TYPE_I32, static_cast<int64_t>(n)),
                                        byte_at(all, first * sizeof(int32_t)));
            ggml_tensor * rows = place(one.to->buffer, ggml_get_rows(context.get(), from, slice), byte_at(one.to, first * row));
            ggml_build_forward_expand(graph, rows);
        }
    }
    if (!placed) { return {ErrorCode::kInternal, "rows of keys and values do not lie in their memory on " + name_}; }
    const ggml_status status = ggml_backend_graph_compute(backend_.get(), graph);
    if (status == GGML_STATUS_SUCCESS) { return {}; }
    if (status == GGML_STATUS_ALLOC_FAILED) { return no_memory_to_copy(name_); }
    return {ErrorCode::kIo, name_ + " could not move keys and values: " + ggml_status_to_string(status)};
}

}  // namespace pith
