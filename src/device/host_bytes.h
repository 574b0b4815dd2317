// host_bytes.h - bytes of this machine on their way to a device, or from it. Stage: device.
//
// Where the device's back end names memory that it copies to and from directly (pinned, on a GPU), they lie there: from any
// other memory a driver copies them once more, and waits meanwhile.   Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml-backend.h"

namespace pith {

class HostBytes {
public:
    // Of a device that `backend` computes on. It must live as long as there are bytes.
    static HostBytes near(ggml_backend_t backend);
    explicit HostBytes(ggml_backend_buffer_type_t type) : type_(type) {}  // null: any memory
    ~HostBytes() { release(); }
    HostBytes(HostBytes && other) noexcept;
    HostBytes & operator=(HostBytes &&) = delete;

    // What they were is lost where there are more of them than ever. REQUIRES: inside on_devices(). Throws std::bad_alloc.
    void resize(size_t n);
    void release();  // inside or outside of on_devices()

    uint8_t * data() { return buffer_ != nullptr ? pinned_ : bytes_.data(); }
    const uint8_t * data() const { return buffer_ != nullptr ? pinned_ : bytes_.data(); }
    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    size_t capacity() const { return buffer_ != nullptr ? capacity_ : bytes_.capacity(); }

private:
    ggml_backend_buffer_type_t type_;
    ggml_backend_buffer_t buffer_ = nullptr;
    uint8_t * pinned_ = nullptr;
    size_t capacity_ = 0;         // of it
    std::vector<uint8_t> bytes_;  // where there is none
    size_t size_ = 0;
};

}  // namespace pith
