// bucket_rows.cpp - rows of lanes in a device's memory that the processor reads, writes and moves.
#include "cache/bucket_lanes.h"

#include <ggml-backend.h>

#include <algorithm>
#include <cassert>
#include <new>

#include "device/device_work.h"

namespace pith {

void BucketLanes::on_device(const std::function<void()> & work) const noexcept {
    try {
        const Status status = on_devices([&]() -> Status {
            work();
            return {};
        });
        if (!status.ok() && health_.ok()) {
            health_ = {status.code(), status.wording() + " (" + device_->name() +
                                          "): keys and values are lost; read the prompt anew, or open a cache file"};
        }
    } catch (...) {
        if (health_.ok()) { health_ = Status(ErrorCode::kOutOfMemory, "out of memory"); }
    }
}

template <class Byte, class Pass>
void BucketLanes::pass_rows(int lane, int64_t first, int64_t n, Byte * k, Byte * v, Pass pass) const noexcept {
    if (n == 0) { return; }
    const size_t of_k = rows().bytes_k();
    const size_t of_v = rows().bytes_v();
    on_device([&] {
        for (int64_t done = 0; done < n;) {
            const int64_t begin = cell(lane, first + done);
            int64_t some = in_pieces_ ? 1 : n - done;
            while (done + some < n && cell(lane, first + done + some) == begin + some) { ++some; }
            const auto at = static_cast<size_t>(begin);
            const auto count = static_cast<size_t>(some);
            pass(k_, k, at * of_k, count * of_k);
            k += count * of_k;
            if (v != nullptr) {
                pass(v_, v, at * of_v, count * of_v);
                v += count * of_v;
            }
            done += some;
        }
    });
}

void BucketLanes::write(int lane, int64_t first, int64_t n, const uint8_t * k, const uint8_t * v) noexcept {
    assert(n == 0 || first >= places_.starts[static_cast<size_t>(lane)]);  // make_whole() comes first
    pass_rows(lane, first, n, k, v, ggml_backend_tensor_set);
}

void BucketLanes::read(int lane, int64_t first, int64_t n, uint8_t * k, uint8_t * v) const noexcept {
    pass_rows(lane, first, n, k, v, ggml_backend_tensor_get);
}

// From the end that is not overwritten before it has been read.
void BucketLanes::move(int lane, int64_t from, int64_t to, int64_t n) noexcept {
    uint8_t * k = scratch_.data();
    uint8_t * v = k + static_cast<size_t>(kScratchRows) * rows().bytes_k();
    for (int64_t done = 0; done < n;) {
        const int64_t some = std::min(kScratchRows, n - done);
        const int64_t i = to < from ? done : n - done - some;
        read(lane, from + i, some, k, v);
        write(lane, to + i, some, k, v);
        done += some;
    }
}

// REQUIRES: room for as many.
void BucketLanes::copy_from(const LaneStore & other, std::span<const int64_t> lengths) noexcept {
    uint8_t * k = scratch_.data();
    uint8_t * v = k + static_cast<size_t>(kScratchRows) * rows().bytes_k();
    for (int lane = 0; lane < rows().n_lanes; ++lane) {
        const int64_t n = lengths[static_cast<size_t>(lane)];
        for (int64_t first = 0; first < n; first += kScratchRows) {
            const int64_t some = std::min(kScratchRows, n - first);
            other.read(lane, first, some, k, v);
            write(lane, first, some, k, v);
        }
        set_length(lane, n, /*frees=*/false);
    }
}

}  // namespace pith
