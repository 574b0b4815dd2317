// device_rows.cpp - one tensor in a buffer of its own.
#include "device/device_rows.h"

#include <string>

#include "device/device_work.h"
#include "device/sent_graphs.h"

namespace pith {

Result<std::unique_ptr<DeviceRows>> DeviceRows::make(ggml_backend_t device, int64_t width, int64_t n) {
    std::unique_ptr<DeviceRows> made(new DeviceRows());
    made->context_.reset(ggml_init({ggml_tensor_overhead(), nullptr, true}));
    if (!made->context_) { return {ErrorCode::kOutOfMemory, "no memory to describe rows in"}; }
    made->rows_ = ggml_new_tensor_2d(made->context_.get(), GGML_TYPE_F32, width, n);
    PITH_RETURN_IF_ERROR(on_devices([&]() -> Status {
        forget_sent_graphs();
        made->buffer_ =
            ggml_backend_alloc_ctx_tensors_from_buft(made->context_.get(), ggml_backend_get_default_buffer_type(device));
        if (made->buffer_ != nullptr) { return {}; }
        return {ErrorCode::kOutOfMemory, "no memory on " + std::string(ggml_backend_name(device)) + " for " +
                                             std::to_string(made->size_bytes()) + " bytes of hidden states"};
    }));
    return made;
}

DeviceRows::~DeviceRows() {
    if (buffer_ != nullptr) {
        give_back([this] { ggml_backend_buffer_free(buffer_); });
    }
}

ggml_tensor * DeviceRows::view(ggml_context * ctx, int64_t first, int64_t n) const {
    return ggml_view_2d(ctx, rows_, rows_->ne[0], n, rows_->nb[1], static_cast<size_t>(first) * rows_->nb[1]);
}

}  // namespace pith
