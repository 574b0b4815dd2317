// backend.h - the process's ggml back ends: loaded once, logs to a sink, CPU entry points through the registry. Stage: device.
// Where back ends are loaded at run time, ggml_backend_cpu_* do not link: everything here goes through the registry.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>

#include "pith/log.h"
#include "pith/status.h"

typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;

namespace pith {

// Loads the back ends once per process (thread-safe) and finds the CPU device.
// Errors: kNotFound when no CPU back end could be loaded (names the folder searched and what to run).
Status load_backends();

ggml_backend_dev_t cpu_device();  // REQUIRES: load_backends() succeeded

// Frees a back end with its owner.
struct FreeBackend {
    void operator()(ggml_backend_t backend) const;
};
using OwnedBackend = std::unique_ptr<ggml_backend, FreeBackend>;

// A CPU back end of its own with n_threads, for an OwnedBackend.
Result<ggml_backend_t> make_cpu_backend(int n_threads);
// One of a device's, for an OwnedBackend.   REQUIRES: inside on_devices(). Errors: kInternal.
Result<ggml_backend_t> make_device_backend(ggml_backend_dev_t device);
Status set_cpu_threads(ggml_backend_t backend, int n_threads);

// From now on runs of the back end that find `asked` set end between two operations; nullptr: none does. A back end that cannot
// runs to the end.
void set_cancel(ggml_backend_t backend, const std::atomic<bool> * asked);

// A buffer over memory the caller owns (page-aligned). Free with ggml_backend_buffer_free; the memory stays the caller's.
ggml_backend_buffer_t cpu_buffer_from_ptr(void * data, size_t size_bytes);

}  // namespace pith
