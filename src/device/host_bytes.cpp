// host_bytes.cpp - a buffer of the device's own kind of host memory, or a vector.
#include "device/host_bytes.h"

#include <algorithm>
#include <utility>

#include "device/sent_graphs.h"

namespace pith {

HostBytes HostBytes::near(ggml_backend_t backend) {
    const ggml_backend_dev_t device = ggml_backend_get_device(backend);
    return HostBytes(device == nullptr ? nullptr : ggml_backend_dev_host_buffer_type(device));
}

HostBytes::HostBytes(HostBytes && other) noexcept
    : type_(other.type_),
      buffer_(std::exchange(other.buffer_, nullptr)),
      pinned_(other.pinned_),
      capacity_(other.capacity_),
      bytes_(std::move(other.bytes_)),
      size_(std::exchange(other.size_, 0)) {}

void HostBytes::resize(size_t n) {
    if (n > capacity()) {
        const size_t with_room = std::max(n, capacity() + capacity() / 2);  // graph after graph of a prompt takes a little more
        release();
        if (type_ != nullptr) { buffer_ = ggml_backend_buft_alloc_buffer(type_, with_room); }
        if (buffer_ != nullptr) {
            pinned_ = static_cast<uint8_t *>(ggml_backend_buffer_get_base(buffer_));
            capacity_ = ggml_backend_buffer_get_size(buffer_);
        } else {
            bytes_.reserve(with_room);
            bytes_.resize(n);
        }
    } else if (buffer_ == nullptr) {
        bytes_.resize(n);
    }
    size_ = n;
}

void HostBytes::release() {
    size_ = 0;
    std::vector<uint8_t>().swap(bytes_);
    if (buffer_ == nullptr) { return; }
    give_back([this] { ggml_backend_buffer_free(std::exchange(buffer_, nullptr)); });
}

}  // namespace pith
