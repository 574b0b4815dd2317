// device_work.h - work that talks to devices: what ggml would end the process for becomes an error. Stage: device.
//
// Where a device fails (a driver gives up) ggml calls abort(). Inside on_devices() its abort handler throws instead, through
// ggml's own frames, which have unwind tables wherever compilers make them by default (Linux on x86-64 and ARM64, macOS); what
// ggml held in these frames is lost. Its RPC client talks to servers on a thread of its own, which this cannot reach: where a
// server goes, the process ends (pith/device_failure.h). It is not a signal about a closed connection that ends it: threads
// that are started inside on_devices() do not get it.
#pragma once

#include <cstddef>
#include <functional>

#include "pith/status.h"

struct ggml_tensor;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;

namespace pith {

// Runs `work`, and returns what it returns.
// Errors: also kIo: a device failed, in ggml's words.   Throws what `work` throws.
// Threads: any; one piece of work at a time in the whole process, since ggml has one connection to an RPC server, whose
// requests and answers must not mix. May be called inside `work`.
Status on_devices(const std::function<Status()> & work);

// Where a tensor lies, or what it is a view of; null: it has no memory.
ggml_backend_buffer_t buffer_of(const ggml_tensor * tensor);
// Whether it is memory, and not of this machine's processor.
bool is_on_device(ggml_backend_buffer_t buffer);
bool is_on_device(const ggml_tensor * tensor);
// Whether a node of a graph computes nothing.
bool is_only_a_view(const ggml_tensor * node);
// Whether it is one of Pith's own operations, which are the CPU's whatever a device says of itself.
bool is_own_operation(const ggml_tensor * node);

// Bytes [offset, offset + n_bytes) of a tensor, wherever it lies.   Errors: those of on_devices().
Status read_tensor(const ggml_tensor * tensor, void * to, size_t offset, size_t n_bytes);

}  // namespace pith
