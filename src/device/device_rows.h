// device_rows.h - rows of f32 in a device's memory, which one graph leaves there and the next reads. Stage: device.
//
// They are no graph's own memory: a view of them in a graph is read and written where it lies, and nothing crosses.
// Errors: kOutOfMemory; those of on_devices().   Threads: as graphs, one at a time; it is made and freed on any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ggml-backend.h"
#include "ggml.h"
#include "pith/status.h"

namespace pith {

class DeviceRows {
public:
    // n rows of `width` numbers, whatever these are.
    static Result<std::unique_ptr<DeviceRows>> make(ggml_backend_t device, int64_t width, int64_t n);
    ~DeviceRows();
    DeviceRows(const DeviceRows &) = delete;
    DeviceRows & operator=(const DeviceRows &) = delete;

    int64_t n_rows() const { return rows_->ne[1]; }
    size_t size_bytes() const { return ggml_nbytes(rows_); }
    // Rows [first, first + n) as a tensor [width, n] of a graph. They must live until it has run.
    ggml_tensor * view(ggml_context * ctx, int64_t first, int64_t n) const;

private:
    DeviceRows() = default;

    std::unique_ptr<ggml_context, void (*)(ggml_context *)> context_{nullptr, ggml_free};
    ggml_tensor * rows_ = nullptr;  // [width, n]
    ggml_backend_buffer_t buffer_ = nullptr;
};

}  // namespace pith
