// lane_device.h - memory of a device for rows of keys and values, and the one thing that is done to rows there: some of them,
// in a given order, become rows of other tensors. Stage: device.
//
// Rows are copied by the device itself (ggml's get_rows over their bytes as I32), bit for bit; nothing crosses but the indices.
// Whatever has this ggml back end serves; the CPU's, too.
// Errors: those of on_devices().   Threads: any; calls take turns (device_work.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "device/backend.h"
#include "pith/status.h"

struct ggml_context;
struct ggml_tensor;

namespace pith {

class LaneDevice {
public:
    // Errors: kInternal: it cannot be started.
    static Result<std::shared_ptr<LaneDevice>> make(ggml_backend_dev_t device);
    virtual ~LaneDevice() = default;
    LaneDevice(const LaneDevice &) = delete;
    LaneDevice & operator=(const LaneDevice &) = delete;

    const std::string & name() const { return name_; }
    ggml_backend_dev_t handle() const { return handle_; }

    Result<size_t> free_bytes() const;  // of its memory; 0: it does not say

    // One buffer for all tensors of a context; null: there is no memory for it. REQUIRES: inside on_devices().
    virtual ggml_backend_buffer_t allocate(ggml_context * tensors);

    // Rows [first, first + n) of `to`: row i becomes row indices[i] of `from`. Their rows are whole numbers of four bytes.
    // indices: for every row of the largest `to`. REQUIRES: inside on_devices(); different memory. Errors: kOutOfMemory. Cost:
    // reads and writes the rows once, in one graph.
    struct Copy {
        const ggml_tensor * from;
        ggml_tensor * to;
        size_t first;
        size_t n;
    };
    Status copy_rows(std::span<const Copy> copies, std::span<const int32_t> indices);

protected:
    LaneDevice(ggml_backend_dev_t handle, std::string name, OwnedBackend backend)
        : handle_(handle), name_(std::move(name)), backend_(std::move(backend)) {}

private:
    ggml_backend_dev_t handle_;
    std::string name_;
    OwnedBackend backend_;
};

}  // namespace pith
