// device_work.cpp - ggml's abort handler, one thread's signal mask, and whose turn it is.
#include "device/device_work.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <mutex>
#include <string>
#include <string_view>

#include "pith/device_failure.h"

namespace pith {
namespace {

struct DeviceFailed {
    std::string why;
};

thread_local int depth_of_device_work = 0;
std::atomic<ggml_abort_callback_t> abort_handler_before{nullptr};

std::atomic<DeviceFailureHandler> failure_handler{nullptr};

// "file:line: why", in one line, without the file.
std::string reason_of(const std::string & message) {
    const size_t line = message.find(": ");
    const size_t begin = line == std::string::npos ? 0 : line + 2;
    return message.substr(begin, message.find('\n', begin) - begin);
}

// Elsewhere all is as it would be: the handler there was, or ggml's own message before it ends the process.
void on_ggml_abort(const char * message) {
    if (depth_of_device_work > 0) { throw DeviceFailed{message}; }
    const DeviceFailureHandler handler = failure_handler;
    if (handler != nullptr && std::string_view(message).find("ggml-rpc") != std::string_view::npos) {
        handler(reason_of(message).c_str());
    }
    if (const ggml_abort_callback_t before = abort_handler_before) { return before(message); }
    ggml_set_abort_callback(nullptr);
    ggml_abort("ggml", 0, "%s", message);
}

// As long as it lives, SIGPIPE does not reach this thread: ggml sends to a closed connection without asking for that.
class WithoutPipeSignal {
public:
    WithoutPipeSignal() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        was_pending_ = is_pending();
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~WithoutPipeSignal() {
        int signal = 0;
        if (!was_pending_ && is_pending()) { sigwait(&pipe_, &signal); }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    WithoutPipeSignal(const WithoutPipeSignal &) = delete;
    WithoutPipeSignal & operator=(const WithoutPipeSignal &) = delete;

private:
    static bool is_pending() {
        sigset_t pending;
        sigemptyset(&pending);
        sigpending(&pending);
        return sigismember(&pending, SIGPIPE) == 1;
    }

    sigset_t pipe_;
    sigset_t before_;
    bool was_pending_ = false;
};

struct Deeper {
    Deeper() { ++depth_of_device_work; }
    ~Deeper() { --depth_of_device_work; }
};

}  // namespace

void set_device_failure_handler(DeviceFailureHandler handler) {
    failure_handler = handler;
}

Status on_devices(const std::function<Status()> & work) {
    static std::recursive_mutex turns;
    static const bool watched = [] {
        abort_handler_before = ggml_set_abort_callback(on_ggml_abort);
        return true;
    }();
    static_cast<void>(watched);
    const std::lock_guard turn(turns);
    const WithoutPipeSignal quiet;
    const Deeper deeper;
    try {
        return work();
    } catch (const DeviceFailed & failed) { return {ErrorCode::kIo, "a device failed: " + reason_of(failed.why)}; }
}

ggml_backend_buffer_t buffer_of(const ggml_tensor * tensor) {
    return tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
}

bool is_on_device(ggml_backend_buffer_t buffer) {
    if (buffer == nullptr || ggml_backend_buffer_is_host(buffer)) { return false; }
    // Repacked weights are the processor's, and nobody else reads them.
    const ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
    return device == nullptr || ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU;
}

bool is_on_device(const ggml_tensor * tensor) {
    return is_on_device(buffer_of(tensor));
}

bool is_only_a_view(const ggml_tensor * node) {
    return node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_PERMUTE ||
           node->op == GGML_OP_TRANSPOSE || node->op == GGML_OP_NONE;
}

bool is_own_operation(const ggml_tensor * node) {
    return node->op == GGML_OP_CUSTOM || node->op == GGML_OP_MAP_CUSTOM1 || node->op == GGML_OP_MAP_CUSTOM2 ||
           node->op == GGML_OP_MAP_CUSTOM3;
}

Status read_tensor(const ggml_tensor * tensor, void * to, size_t offset, size_t n_bytes) {
    if (!is_on_device(tensor)) {
        ggml_backend_tensor_get(tensor, to, offset, n_bytes);
        return {};
    }
    Status status = on_devices([&]() -> Status {
        ggml_backend_tensor_get(tensor, to, offset, n_bytes);
        return {};
    });
    if (status.ok()) { return status; }
    return {status.code(), status.wording() + " (" + ggml_backend_buffer_name(buffer_of(tensor)) + ")"};
}

}  // namespace pith
