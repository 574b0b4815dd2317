// backend.cpp - the process's ggml back ends, loaded once. Stage: device.
#include "device/backend.h"

#include <dlfcn.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <string>

#include "core/log_pieces.h"
#include "device/sent_graphs.h"

namespace pith {
namespace {

// Where ggml's libraries were only unpacked, or came with an installed pith, the folder that ggml was told of when it was
// built is not there: its back ends lie in this one, beside the library.
#ifndef PITH_GGML_BACKENDS
#define PITH_GGML_BACKENDS ""
#endif
constexpr std::string_view kBackendFolder = PITH_GGML_BACKENDS;

std::string backend_dir() {
    Dl_info library{};
    if (kBackendFolder.empty() || dladdr(reinterpret_cast<void *>(&ggml_backend_load_all), &library) == 0) { return {}; }
    const std::string file = library.dli_fname;
    return file.substr(0, file.rfind('/') + 1) + std::string(kBackendFolder);
}

void on_ggml_log(ggml_log_level level, const char * text, void *) {
    static_assert(GGML_LOG_LEVEL_ERROR == 4 && GGML_LOG_LEVEL_CONT == 5, "core/log_pieces.h counts on ggml's numbers");
    thread_local LogPieces pieces;
    pieces.add(level, text, [](LogLevel line_level, const std::string & line) { log_line(line_level, line); });
}

Status load_once() {
    ggml_log_set(on_ggml_log, nullptr);
    const std::string dir = backend_dir();
    if (dir.empty()) {
        ggml_backend_load_all();
    } else {
        ggml_backend_load_all_from_path(dir.c_str());
    }
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) != nullptr) { return {}; }
    const std::string where = dir.empty() ? "ggml's default folders" : "'" + dir + "'";
    return {ErrorCode::kNotFound,
            "no ggml CPU back end in " + where + ": install pith again, or run scripts/setup and build again"};
}

}  // namespace

Status load_backends() {
    static const Status status = load_once();
    return status;
}

ggml_backend_dev_t cpu_device() {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

void FreeBackend::operator()(ggml_backend_t backend) const {
    const auto type = ggml_backend_dev_type(ggml_backend_get_device(backend));
    if (type == GGML_BACKEND_DEVICE_TYPE_CPU) { return ggml_backend_free(backend); }
    give_back([&] { ggml_backend_free(backend); });
}

Result<ggml_backend_t> make_cpu_backend(int n_threads) {
    PITH_RETURN_IF_ERROR(load_backends());
    ggml_backend_t backend = ggml_backend_dev_init(cpu_device(), nullptr);
    if (backend == nullptr) { return {ErrorCode::kInternal, "ggml's CPU back end could not be started"}; }
    if (Status status = set_cpu_threads(backend, n_threads); !status.ok()) {
        ggml_backend_free(backend);
        return status;
    }
    return backend;
}

Result<ggml_backend_t> make_device_backend(ggml_backend_dev_t device) {
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
    if (backend != nullptr) { return backend; }
    return {ErrorCode::kInternal,
            "device '" + std::string(ggml_backend_dev_name(device)) + "' could not be started: ggml's log says why"};
}

Status set_cpu_threads(ggml_backend_t backend, int n_threads) {
    if (n_threads < 1 || n_threads > GGML_MAX_N_THREADS) {
        return {ErrorCode::kInvalidArgument,
                "number of threads is " + std::to_string(n_threads) + ": give 1 to " + std::to_string(GGML_MAX_N_THREADS)};
    }
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    auto set =
        reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads"));
    if (set == nullptr) { return {ErrorCode::kUnsupported, "this ggml back end has no 'ggml_backend_set_n_threads'"}; }
    set(backend, n_threads);
    return {};
}

void set_cancel(ggml_backend_t backend, const std::atomic<bool> * asked) {
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    const auto set = reinterpret_cast<ggml_backend_set_abort_callback_t>(
        ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_abort_callback"));
    if (set == nullptr) { return; }
    const ggml_abort_callback is_asked = [](void * flag) { return static_cast<const std::atomic<bool> *>(flag)->load(); };
    set(backend, asked != nullptr ? is_asked : nullptr, const_cast<std::atomic<bool> *>(asked));
}

ggml_backend_buffer_t cpu_buffer_from_ptr(void * data, size_t size_bytes) {
    return ggml_backend_cpu_buffer_from_ptr(data, size_bytes);  // lives in ggml's base library, so that it links
}

}  // namespace pith
